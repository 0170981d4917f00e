//! Which process is meant: by its number, its name (with an option or alone), its control group or its container.
//!
//! ```text
//! NAME, --name, --cgroup, --container -> wanted (pure) -> candidates of /proc -> one pid, or a list to choose from
//! ```
//!
//! Nothing is guessed: where several processes answer to what was typed, they are listed with what
//! tells them apart, the largest first.

mod candidate;
mod several;
mod wanted;

use clap::Args;

use crate::exit_status::Exit;
use candidate::Candidate;
pub use candidate::all;
use heapattach_text::quantity::bytes;
pub use several::Several;
use wanted::Wanted;

/// Longer lists do not help the user.
const LISTED: usize = 12;

/// What the user says of the process.
#[derive(Clone, Debug, Default, Args)]
#[group(multiple = false)]
pub struct WhichArgs {
    /// The process, by its number or by the name of its program
    #[arg(value_name = "PID|NAME", value_parser = wanted::parse_word)]
    pub word: Option<String>,
    /// The process, by its number
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    pub pid: Option<i32>,
    /// The process, by the name of its program
    #[arg(long, hide_short_help = true, value_name = "NAME", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// The process, by its control group or one above it: `redis.service`
    #[arg(hide_short_help = true, long, value_name = "PATH", value_parser = wanted::parse_cgroup)]
    pub cgroup: Option<String>,
    /// The process, by the identifier of its container, or how that begins
    #[arg(hide_short_help = true, long, value_name = "ID", value_parser = wanted::parse_container)]
    pub container: Option<String>,
}

/// Why no process could be chosen.
#[derive(Debug)]
pub struct Unclear {
    /// The message for the user.
    pub message: String,
    /// The exit status of the command.
    pub exit: Exit,
}

impl WhichArgs {
    /// The process that is meant; `None` if the user has said nothing of one.
    ///
    /// # Errors
    /// When none or several answer to it.
    pub fn pid(&self) -> Result<Option<i32>, Unclear> {
        let number = self.word.as_ref().and_then(|word| word.parse().ok());
        if let Some(pid) = self.pid.or(number) {
            return Ok(Some(pid));
        }
        let Some(wanted) = self.wanted() else { return Ok(None) };
        let own = std::process::id().try_into().unwrap_or(0);
        let found = all().filter(|one| one.pid != own && wanted.is(one)).collect();
        choose(&wanted, found).map(Some)
    }

    fn wanted(&self) -> Option<Wanted<'_>> {
        let word = self.word.as_deref().map(Wanted::Word);
        let name = || self.name.as_deref().map(Wanted::Name);
        let cgroup = || self.cgroup.as_deref().map(Wanted::Cgroup);
        let container = || self.container.as_deref().map(Wanted::Container);
        word.or_else(name).or_else(cgroup).or_else(container)
    }
}

fn choose(wanted: &Wanted<'_>, mut found: Vec<Candidate>) -> Result<i32, Unclear> {
    match &found[..] {
        [] => {
            let message = format!("no process {wanted} is there; {}", wanted.advice());
            // It may as well be a mistyped command.
            let is_word = matches!(wanted, Wanted::Word(_));
            let exit = if is_word { Exit::Usage } else { Exit::Refused };
            Err(Unclear { message, exit })
        }
        [one] => Ok(one.pid),
        _ => {
            found.sort_by_key(|one| (std::cmp::Reverse(one.resident), one.pid));
            Err(Unclear { message: list(wanted, &found), exit: Exit::Usage })
        }
    }
}

fn list(wanted: &Wanted<'_>, found: &[Candidate]) -> String {
    let mut message =
        format!("{} processes {wanted} are there, and nothing was done; choose one:", found.len());
    for one in found.iter().take(LISTED) {
        message += &format!(
            "\n  -p {:<8} {:>10}  child of {:<8} {}{}",
            one.pid,
            bytes(one.resident),
            one.parent,
            one.inside.map(|pid| format!("({pid} inside) ")).unwrap_or_default(),
            one.command,
        );
    }
    if let Some(more) = found.len().checked_sub(LISTED).filter(|&more| more > 0) {
        message += &format!("\n  and {more} smaller ones");
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(pid: i32, resident: u64) -> Candidate {
        Candidate { pid, resident, command: format!("server {pid}"), ..Candidate::default() }
    }

    #[test]
    fn one_is_taken_none_and_several_are_explained() {
        let wanted = Wanted::Name("server");
        assert_eq!(choose(&wanted, vec![candidate(7, 1)]).unwrap(), 7);

        let none = choose(&wanted, Vec::new()).unwrap_err();
        assert_eq!(none.exit.code(), Exit::Refused.code());
        assert!(none.message.contains("named `server`"), "{}", none.message);

        let several = choose(&wanted, vec![candidate(7, 1 << 20), candidate(8, 40 << 30)]);
        let several = several.unwrap_err();
        assert_eq!(several.exit.code(), Exit::Usage.code());
        let lines: Vec<_> = several.message.lines().collect();
        assert!(lines[1].contains("-p 8") && lines[2].contains("-p 7"), "{}", several.message);
    }

    #[test]
    fn a_crowd_is_not_listed_whole() {
        let crowd = (1..=40).map(|pid| candidate(pid, 1)).collect();
        let message = choose(&Wanted::Name("server"), crowd).unwrap_err().message;
        assert_eq!(message.lines().count(), 1 + LISTED + 1);
        assert!(message.ends_with("and 28 smaller ones"));
    }
}
