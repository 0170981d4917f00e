//! Processes with how much anonymous memory they have, read again and again.

use std::{collections::HashMap, fs};

use heapattach_text::printable::printable;
use heapattach_top::Listed;
use nix::unistd::{SysconfVar, sysconf};

/// A command line that is longer is cut.
const COMMAND: usize = 200;

/// What is known from the last time: command lines do not change.
#[derive(Debug, Default)]
pub struct ProcessList {
    commands: HashMap<(i32, u64), String>,
}

impl ProcessList {
    /// All that have anonymous memory, this one aside.
    pub fn read(&mut self) -> Vec<Listed> {
        let page = sysconf(SysconfVar::PAGE_SIZE).ok().flatten();
        let page = page.and_then(|page| u64::try_from(page).ok()).unwrap_or(4096);
        let own = std::process::id().cast_signed();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let mut known = HashMap::new();
        let mut listed = Vec::new();
        for pid in pids.filter(|pid| *pid != own) {
            let Some((resident, anonymous)) = pages(pid) else { continue };
            let Some(began) = began(pid).filter(|_| anonymous > 0) else { continue };
            let command = self.commands.remove(&(pid, began)).unwrap_or_else(|| command(pid));
            known.insert((pid, began), command.clone());
            let [resident, anonymous] =
                [resident, anonymous].map(|pages| pages.saturating_mul(page));
            listed.push(Listed { pid, began, command, anonymous, resident });
        }
        self.commands = known;
        listed
    }
}

/// Pages in memory, and those of them that no file is behind.
fn pages(pid: i32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let mut words = text.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let (resident, shared) = (words.next()?.ok()?, words.next()?.ok()?);
    Some((resident, resident.saturating_sub(shared)))
}

/// When it began, in ticks.
fn began(pid: i32) -> Option<u64> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    // The name before may hold anything.
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

fn command(pid: i32) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line: String = String::from_utf8_lossy(&line).chars().take(COMMAND).collect();
    let words = line.replace('\0', " ");
    match words.trim() {
        "" => {
            let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
            printable(String::from_utf8_lossy(&name).trim())
        }
        words => printable(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_of_this_process_is_there_and_this_one_is_not() {
        let parent = nix::unistd::getppid().as_raw();
        let own = std::process::id().cast_signed();
        let listed = ProcessList::default().read();
        let found = listed.iter().find(|one| one.pid == parent).expect("it waits for us");
        assert!(found.began > 0 && found.anonymous <= found.resident && !found.command.is_empty());
        assert!(listed.iter().all(|one| one.pid != own));
    }
}
