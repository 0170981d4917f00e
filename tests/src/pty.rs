//! A terminal of ours, as the command under test sees it.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    libc::winsize,
    pty::openpty,
};

/// What a user types to have the terminal take nothing more.
const HOLD: u8 = 0x13;

/// Both ends of it.
#[derive(Debug)]
pub struct Pty {
    master: File,
    slave: OwnedFd,
    seen: Vec<u8>,
}

impl Pty {
    /// One of 100 columns.
    ///
    /// # Panics
    /// If the machine has none.
    pub fn new() -> Self {
        Self::of_columns(100)
    }

    /// One of so many columns.
    ///
    /// # Panics
    /// If the machine has none.
    pub fn of_columns(columns: u16) -> Self {
        let size = winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let pty = openpty(&size, None).expect("a pseudo-terminal");
        fcntl(&pty.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("a descriptor of ours");
        Self { master: pty.master.into(), slave: pty.slave, seen: Vec::new() }
    }

    /// The end that a program has.
    ///
    /// # Panics
    /// If there are no descriptors left.
    pub fn slave(&self) -> OwnedFd {
        self.slave.try_clone().expect("a descriptor")
    }

    /// All that was written to it so far.
    pub fn seen(&mut self) -> String {
        let mut some = [0; 4096];
        while let Ok(count @ 1..) = self.master.read(&mut some) {
            self.seen.extend(&some[..count]);
        }
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// From now on it takes nothing.
    ///
    /// # Panics
    /// If that cannot be typed.
    pub fn hold(&mut self) {
        self.master.write_all(&[HOLD]).expect("room for a key");
    }

    /// The lines that a user sees in the end.
    pub fn lines(&mut self) -> Vec<String> {
        lines(&self.seen())
    }
}

impl Default for Pty {
    fn default() -> Self {
        Self::new()
    }
}

/// What stays of text that goes back to the begin of its line and clears it.
fn lines(text: &str) -> Vec<String> {
    let (mut lines, mut line, mut at) = (Vec::new(), Vec::<char>::new(), 0);
    let mut rest = text.chars();
    while let Some(letter) = rest.next() {
        match letter {
            '\r' => at = 0,
            '\n' => lines.push(std::mem::take(&mut line).into_iter().collect()),
            '\u{1b}' => {
                let end = rest.by_ref().find(|c| c.is_ascii_alphabetic());
                if end == Some('K') {
                    line.clear();
                }
            }
            letter => {
                line.resize(line.len().max(at + 1), ' ');
                line[at] = letter;
                at += 1;
            }
        }
    }
    lines.push(line.into_iter().collect());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cleared_is_not_seen() {
        assert_eq!(lines("bar\r\u{1b}[2Ktold\r\n\r\u{1b}[1mb"), ["told", "b"]);
        assert_eq!(lines("bar told\n"), ["bar told", ""]);
    }
}
