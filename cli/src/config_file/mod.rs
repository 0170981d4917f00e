//! `heapattach.toml`: options that a project always uses.
//!
//! ```text
//! find: from the folder we are in upwards -> owner: is it the user's own? -> table: options of one command
//!     -> merge: those that the command line does not speak of go before it
//! ```
//!
//! The file may come with a repository of others. It has plain options only: nothing that is run, nothing
//! that chooses a process, no file outside of its own folder.

mod choice;
mod find;
mod merge;
mod owner;
mod permitted;
mod table;

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{ArgMatches, Command};

pub use choice::ConfigArgs;
pub use merge::{Files, merge};
pub use permitted::Section;
pub use table::Asked;

use merge::Merged;

/// The name of the file.
const NAME: &str = "heapattach.toml";

/// The words of a command line with the options of the file among them, and what is to be said of it.
#[derive(Debug)]
pub struct Configured {
    /// What is to be parsed.
    pub words: Vec<OsString>,
    /// The file that was read, and the options that were taken from it.
    pub told: Option<String>,
}

/// Adds the options of a file to a command line that was understood without them: of the file that it
/// names, or of the first that is found.
///
/// # Errors
/// With the file, and what is wrong with it.
pub fn configure(
    command: &Command,
    matches: &ArgMatches,
    words: Vec<OsString>,
) -> Result<Configured, String> {
    let section = Section::of(matches).filter(|_| words.len() > 1);
    let Some(section) = section else { return Ok(Configured { words, told: None }) };
    let given = Section::matches(matches);
    // Where the command line is wrong, not even what is usual is there: that is told when all of it is.
    if given.get_one::<bool>("no_config") == Some(&true) {
        return Ok(Configured { words, told: None });
    }
    let named = given.get_one::<PathBuf>("config");
    let Some(path) = named.cloned().or_else(search) else {
        return Ok(Configured { words, told: None });
    };
    // Who names a file trusts it.
    let text = owner::read(&path, named.is_some())
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let command = section.command(command);
    let options = table::options(&text, section, command)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let Merged { options, told } = merge(options, command, given, Files::Below(folder))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    let told = match told.is_empty() {
        true => format!("read {}: no options for this", path.display()),
        false => format!("read {}: {}", path.display(), told.join(" ")),
    };
    let at = section.words_before().min(words.len());
    let words = words[..at].iter().cloned().chain(options).chain(words[at..].iter().cloned());
    Ok(Configured { words: words.collect(), told: Some(told) })
}

fn search() -> Option<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    find::find(&env::current_dir().ok()?, home.as_deref())
}
