//! Several processes, and what is read instead of one: recordings, servers.

use std::path::Path;

use super::{all, wanted::Wanted};
use crate::exit_status::Exit;

/// How addresses of servers begin.
const ADDRESSES: [&str; 2] = ["http://", "unix:"];

/// What is to be looked at.
#[derive(Clone, Debug, Default)]
pub struct Several {
    /// Processes.
    pub pids: Vec<i32>,
    /// Recordings.
    pub files: Vec<String>,
    /// Servers.
    pub addresses: Vec<String>,
}

impl Several {
    /// Of these numbers and words: a word is a number, a file, an address, or the name of processes.
    ///
    /// # Errors
    /// When a word is none of these.
    pub fn of(pids: &[i32], words: &[String]) -> Result<Self, (Exit, String)> {
        let mut several = Self { pids: pids.to_vec(), ..Self::default() };
        for word in words {
            if let Some(pid) = word.parse::<i32>().ok().filter(|pid| *pid > 0) {
                several.pids.push(pid);
            } else if ADDRESSES.iter().any(|begin| word.starts_with(begin)) {
                several.addresses.push(word.clone());
            } else if Path::new(word).is_file() {
                several.files.push(word.clone());
            } else {
                several.add_named(word)?;
            }
        }
        several.pids.sort_unstable();
        several.pids.dedup();
        Ok(several)
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty() && self.files.is_empty() && self.addresses.is_empty()
    }

    fn add_named(&mut self, word: &str) -> Result<(), (Exit, String)> {
        let named = Wanted::Name(word);
        let own = std::process::id().cast_signed();
        let before = self.pids.len();
        self.pids.extend(all().filter(|one| named.is(one) && one.pid != own).map(|one| one.pid));
        if self.pids.len() == before {
            let why = format!("`{word}` is neither a file nor the name of a process");
            return Err((Exit::Refused, why));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_test_folder::Folder;

    #[test]
    fn a_word_is_a_number_a_file_an_address_or_a_name() {
        let folder = Folder::new("several");
        let path = folder.0.join("a.heapattach").to_str().unwrap().to_owned();
        std::fs::write(&path, "").unwrap();
        let words = ["7", &path, "http://localhost:7070"].map(str::to_owned);
        let several = Several::of(&[9, 7], &words).unwrap();
        assert_eq!((several.pids, several.files), (vec![7, 9], vec![path]));
        assert_eq!(several.addresses, ["http://localhost:7070"]);
        let (exit, why) = Several::of(&[], &["no-such-program".to_owned()]).unwrap_err();
        assert_eq!(exit, Exit::Refused);
        assert!(why.contains("`no-such-program` is neither a file"), "{why}");
    }
}
