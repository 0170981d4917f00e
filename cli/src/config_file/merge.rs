//! What of the options of a file, or of the environment, counts beside a command line: the command line
//! wins.

use std::{
    ffi::OsString,
    fs,
    path::{Component, Path, PathBuf},
};

use clap::{Arg, ArgMatches, Command, parser::ValueSource};

use super::{
    permitted::{is_file, needs},
    table::Asked,
};

/// Where the files of options may be.
#[derive(Clone, Copy, Debug)]
pub enum Files<'a> {
    /// Below the folder of the file with the options, which may be of others.
    Below(&'a Path),
    /// Who chose the options is the user.
    Anywhere,
}

/// Options that count.
#[derive(Debug, Default)]
pub struct Merged {
    /// As words of the command line.
    pub options: Vec<OsString>,
    /// For people.
    pub told: Vec<String>,
}

/// Leaves out what was given, what does not go with that, and what means nothing here.
///
/// # Errors
/// If a file lies outside of the folder.
pub fn merge(
    asked: Vec<Asked>,
    command: &Command,
    given: &ArgMatches,
    files: Files<'_>,
) -> Result<Merged, String> {
    let find = |name: &str| command.get_arguments().find(|arg| arg.get_long() == Some(name));
    let is_given = |arg: &Arg| {
        let id = arg.get_id().as_str();
        given.try_contains_id(id).is_ok()
            && given.value_source(id) == Some(ValueSource::CommandLine)
    };
    let typed: Vec<&Arg> = command.get_arguments().filter(|arg| is_given(arg)).collect();
    if typed.iter().any(|arg| arg.is_exclusive_set()) {
        return Ok(Merged::default());
    }
    let is_against = |arg: &Arg| {
        let own = command.get_arg_conflicts_with(arg);
        let theirs = |other: &&&Arg| command.get_arg_conflicts_with(other).contains(&arg);
        typed.iter().any(|other| own.iter().any(|one| one == other))
            || typed.iter().any(|o| theirs(&o))
    };
    // What is left out cannot be what another one needs.
    let counts = |name: &str| {
        let is_asked = asked.iter().any(|asked| asked.option == name);
        find(name).is_some_and(|arg| is_given(arg) || is_asked && !is_against(arg))
    };
    let mut merged = Merged::default();
    for Asked { option, values } in &asked {
        let Some(arg) = find(option) else { continue };
        let is_useless = needs(option).is_some_and(|needed| !counts(needed));
        if is_given(arg) || is_against(arg) || is_useless {
            continue;
        }
        if values.is_empty() {
            merged.options.push(format!("--{option}").into());
            merged.told.push(format!("--{option}"));
        }
        for value in values {
            merged.told.push(format!("--{option}={value}"));
            let mut word = OsString::from(format!("--{option}="));
            match files {
                Files::Below(folder) if is_file(option) => {
                    word.push(within(folder, value).map_err(|why| format!("`{option}`: {why}"))?)
                }
                Files::Below(_) | Files::Anywhere => word.push(value),
            }
            merged.options.push(word);
        }
    }
    Ok(merged)
}

/// The path, if it stays in the folder: the file may be of a repository of others.
fn within(folder: &Path, value: &str) -> Result<PathBuf, String> {
    let path = Path::new(value);
    let is_inner = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if value.is_empty() || !path.components().all(is_inner) {
        return Err(format!(
            "`{value}` is not below its folder; name such a file on the command line"
        ));
    }
    let path = folder.join(path);
    let real = path.parent().and_then(|parent| fs::canonicalize(parent).ok());
    let is_inside = real
        .is_none_or(|real| fs::canonicalize(folder).is_ok_and(|folder| real.starts_with(folder)));
    match is_inside && !path.is_symlink() {
        true => Ok(path),
        false => Err(format!("`{value}` is a link; name such a file on the command line")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use clap::CommandFactory;

    use super::*;
    use crate::{args::Cli, config_file::permitted::Section};
    use heapattach_test_folder::Folder;

    fn merged(asked: &[(&str, &[&str])], line: &[&str]) -> Vec<String> {
        let mut all = Cli::command().ignore_errors(true);
        all.build();
        let words = ["heapattach"].iter().chain(line);
        let matches = all.clone().try_get_matches_from(words).unwrap();
        let section = Section::of(&matches).unwrap();
        let asked = asked.iter().map(|(option, values)| Asked {
            option: (*option).to_owned(),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
        });
        let folder = Path::new("/nowhere");
        let command = section.command(&all);
        let merged =
            merge(asked.collect(), command, Section::matches(&matches), Files::Below(folder))
                .unwrap();
        merged.options.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn what_the_command_line_says_counts_and_what_goes_against_it_does_not() {
        let file: &[(&str, &[&str])] =
            &[("max-leak", &["1KiB"]), ("follow-forks", &[]), ("skip", &["*sh", "make"])];
        let run = ["check", "--", "./tests", "--max-leak", "9"];
        let all = ["--max-leak=1KiB", "--follow-forks", "--skip=*sh", "--skip=make"];
        assert_eq!(merged(file, &run), all, "what comes after -- is the program's");
        assert_eq!(merged(file, &["check", "--max-leak", "2", "--", "x"]), all[1..]);
        assert_eq!(merged(file, &["check", "--skip", "a", "--", "x"]), all[..2]);
        // A process that runs already has no family that can be followed.
        assert_eq!(merged(file, &["check", "-p", "1"]), all[..1], "nor --skip, which needs it");
        assert_eq!(merged(&file[2..], &run), [""; 0]);
        let file: &[(&str, &[&str])] = &[("every", &["1MiB"])];
        assert_eq!(merged(file, &["-p", "1", "--all"]), [""; 0], "the other way to say how much");
        assert_eq!(merged(&[("all", &[])], &["-p", "1", "--every", "1MiB"]), [""; 0]);
        assert_eq!(merged(file, &["run", "--", "x"]), ["--every=1MiB"]);
    }

    #[test]
    fn files_are_those_of_the_folder_and_not_elsewhere() {
        let folder = Folder::new("config-within");
        std::fs::create_dir(folder.0.join("in")).unwrap();
        symlink("/etc", folder.0.join("out")).unwrap();
        symlink("/etc/passwd", folder.0.join("link")).unwrap();
        let fits = |value: &str| within(&folder.0, value);
        assert_eq!(fits("in/leaks.xml"), Ok(folder.0.join("in/leaks.xml")));
        assert!(fits("not/yet.xml").is_ok());
        for value in ["", "/etc/passwd", "../a", "in/../../a", "out/passwd", "link", "-/.."] {
            assert!(fits(value).is_err(), "{value}");
        }
        assert!(merged(&[("junit", &["a.xml"])], &["check", "--", "x"])[0].ends_with("/a.xml"));
    }
}
