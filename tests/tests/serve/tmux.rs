//! A terminal that is looked at as a user sees it, and typed into: tmux's.

use std::{
    path::PathBuf,
    process::{Command, Output},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use heapattach_tests::{
    compile::is_there,
    deadline::{PATIENCE, wait_until},
    skip::skip,
};

/// A server of tmux with one window, and a shell in it.
pub struct Tmux {
    socket: PathBuf,
}

impl Tmux {
    /// One of so many columns and lines; `None` without tmux.
    pub fn start(columns: u16, lines: u16) -> Option<Self> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        if !is_there("tmux") {
            skip("tmux is not there", "apt-get install tmux");
            return None;
        }
        let serial = SERIAL.fetch_add(1, Relaxed);
        let name = format!("heapattach-tmux-{}-{serial}", std::process::id());
        let this = Self { socket: std::env::temp_dir().join(name) };
        let (columns, lines) = (columns.to_string(), lines.to_string());
        let shell = "env PS1='$ ' sh";
        let words = ["-f", "/dev/null", "new-session", "-d", "-x", &columns, "-y", &lines, shell];
        let started = this.tmux(&words);
        assert!(started.status.success(), "{started:?}");
        Some(this)
    }

    /// Types a line.
    pub fn line(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
        self.key("Enter");
    }

    /// Presses a key, by the name that tmux has for it.
    pub fn key(&self, name: &str) {
        self.tmux(&["send-keys", name]);
    }

    /// What is on the screen.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// The same with the sequences of its colours.
    pub fn coloured(&self) -> String {
        String::from_utf8_lossy(&self.tmux(&["capture-pane", "-p", "-e"]).stdout).into_owned()
    }

    /// Waits until something is on the screen.
    ///
    /// # Panics
    /// If it does not come.
    pub fn wait_for(&self, what: &str) {
        let mut last = String::new();
        wait_until(&format!("{what:?} on the screen"), PATIENCE, || {
            let screen = self.screen();
            if screen != last && std::env::var_os("SHOW_SCREENS").is_some() {
                eprintln!("{screen}");
            }
            last = screen;
            last.contains(what)
        });
    }

    /// Gives it another size.
    pub fn resize(&self, columns: u16, lines: u16) {
        self.tmux(&["resize-window", "-x", &columns.to_string(), "-y", &lines.to_string()]);
    }

    fn tmux(&self, words: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(words);
        // A user's own settings of these are not for this one.
        command.env_remove("TMUX").env_remove("NO_COLOR").output().expect("tmux runs")
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
        let _ = std::fs::remove_file(&self.socket);
    }
}
