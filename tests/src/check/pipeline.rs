//! `heapattach check` as a pipeline runs it: `several_leaks.c`, options, and the files it leaves.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use crate::{
    command::{Heapattach, Outcome},
    compile::Source,
};

/// A program to check, and a folder for what comes out.
#[derive(Debug)]
pub struct Pipeline {
    program: PathBuf,
    folder: PathBuf,
    environment: Vec<(String, String)>,
}

impl Pipeline {
    /// With the program built with these flags; `None` (reported as skipped) where there is no compiler.
    ///
    /// # Panics
    /// If there is no room for its files.
    #[must_use]
    pub fn build(flags: &[&str]) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let source = Source::new("several_leaks.c");
        let program = flags.iter().fold(source, |source, flag| source.flag(flag)).build()?;
        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("heapattach-pipeline-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("the temporary folder is ours to write");
        // Two builds of one program have one name.
        let named = folder.join("several_leaks");
        // By another process: a file that this one writes to can be inherited by a process that another test
        // starts, and is not to be executed then.
        let copied = Command::new("cp").arg(&program).arg(&named).status();
        assert!(copied.is_ok_and(|status| status.success()), "no copy of our own file");
        Some(Self { program: named, folder, environment: Vec::new() })
    }

    /// Where its files are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file of it, as an argument.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Writes a file for an option to name.
    ///
    /// # Panics
    /// If it cannot be written.
    #[must_use]
    pub fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.folder.join(name), text).expect("a folder of ours");
        self.path(name)
    }

    /// What a file says.
    ///
    /// # Panics
    /// If it is not there.
    #[must_use]
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).expect("a file that was written")
    }

    /// Sets an environment variable of the command.
    pub fn set(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Checks the program, called with these words.
    #[must_use]
    pub fn check(&self, options: &[&str], words: &[&str]) -> Outcome {
        let mut command = Heapattach::new(["check"]).env("GITHUB_ACTIONS", "");
        for (name, value) in &self.environment {
            command = command.env(name, value);
        }
        for option in options {
            command = command.arg(*option);
        }
        command = command.arg("--").arg(&self.program);
        for word in words {
            command = command.arg(*word);
        }
        command.run()
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// What the command says of the check itself, without what is another number each time.
#[must_use]
pub fn result_of(outcome: &Outcome, pipeline: &Pipeline) -> String {
    let begin = outcome.stderr.find("=====").unwrap_or_default();
    let lines = outcome.stderr[begin..].lines();
    let kept = lines.filter(|line| !["PAUSE", "CHECKED"].iter().any(|word| line.starts_with(word)));
    let kept = kept.filter(|line| !is_below_main(line));
    let fixtures = crate::compile::folder().join("check");
    let place = |line: &str| {
        let line = line.replace(&format!("{}/", fixtures.display()), "");
        let line = line.replace(&format!("{}/", pipeline.folder.display()), "");
        let is_call = line.trim_start().starts_with('#');
        let words = line.split(' ').map(|word| match word {
            address if is_call && address.starts_with("0x") => "0x?".to_owned(),
            // `==4711==ERROR:`
            process if process.starts_with("==") && !process.ends_with("==") => {
                "==PID==".to_owned() + process.rsplit("==").next().unwrap_or_default()
            }
            other => other.to_owned(),
        });
        words.collect::<Vec<_>>().join(" ") + "\n"
    };
    kept.map(place).collect()
}

/// What leads to `main` is another library's on each machine.
fn is_below_main(line: &str) -> bool {
    ["__libc_start", " in _start"].iter().any(|name| line.contains(name))
}
