//! `heapattach.toml`: options of a project, for all who check it, and no more than that.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use heapattach_tests::{
    command::{Heapattach, Outcome},
    compile::Source,
    fixture::Launch,
};

/// A repository with a program that leaks seven bytes, gone with the test.
struct Project {
    folder: PathBuf,
    program: PathBuf,
}

impl Project {
    fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let program = Source::new("leaky_suite.c").build()?;
        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("heapattach-config-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(folder.join(".git")).expect("a temporary folder");
        fs::create_dir(folder.join("deep")).expect("a folder of ours");
        Some(Self { folder, program })
    }

    fn write(&self, text: &str, mode: u32) {
        let path = self.folder.join("heapattach.toml");
        fs::write(&path, text).expect("a folder of ours");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a file of ours");
    }

    fn check(&self, options: &[&str]) -> Outcome {
        let command = Heapattach::new(["check"].iter().chain(options).chain(&["--"]));
        command.arg(&self.program).arg("lose").arg("7").folder(self.folder.join("deep")).run()
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn a_project_has_its_options_and_the_command_line_comes_first() {
    let Some(project) = Project::new() else { return };
    assert_eq!(project.check(&[]).code(), Some(23));
    project
        .write("[check]\nmax-leak = \"1KiB\"\njunit = 'leaks.xml'\n[attach]\nall = true\n", 0o644);
    let outcome = project.check(&[]);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let path = project.folder.join("heapattach.toml");
    let told = format!("heapattach: read {}: --junit=leaks.xml --max-leak=1KiB\n", path.display());
    assert!(outcome.stderr.starts_with(&told), "{}", outcome.stderr);
    assert!(Path::new(&project.folder.join("leaks.xml")).is_file(), "beside the file of options");
    assert_eq!(project.check(&["--max-leak", "6"]).code(), Some(23));
    assert_eq!(project.check(&["--no-config"]).code(), Some(23));
    // What is read by programs has nothing else in it.
    let json = project.check(&["--json"]).stderr;
    assert!(json.starts_with('{'), "{json}");
    assert!(!project.check(&["--quiet"]).stderr.contains("read "));
}

#[test]
fn sessions_have_tables_of_their_own() {
    let Some(project) = Project::new() else { return };
    let Some(launch) = Launch::new("kept_pointers.c") else { return };
    let text = "[attach]\nall = true\n[run]\nevery = '64KiB'\n[check]\nmax-leak = '1KiB'\n";
    project.write(text, 0o644);
    let read = format!("heapattach: read {}: ", project.folder.join("heapattach.toml").display());
    let fixture = launch.start();
    let pid = fixture.pid().to_string();
    let attach = ["-p", &pid, "--duration", "500ms", "--no-record"];
    let told = Heapattach::new(attach).folder(&project.folder).run().expect(0);
    assert!(told.stderr.contains(&format!("{read}--all\n")), "{}", told.stderr);
    assert!(told.stdout.contains("every block is recorded"), "{}", told.stdout);
    fixture.finish();
    let run = ["run", "--no-record", "--", "true"];
    let told = Heapattach::new(run).folder(&project.folder).run().expect(0);
    assert!(told.stderr.contains(&format!("{read}--every=64KiB\n")), "{}", told.stderr);
    assert!(told.stderr.contains("one in 64.0 KiB on average"), "{}", told.stderr);
}

#[test]
fn a_mistake_in_the_file_is_told_before_anything_is_done() {
    let Some(project) = Project::new() else { return };
    project.write("[check]\nmax-leek = '1KiB'\n", 0o644);
    let outcome = project.check(&[]);
    assert_eq!(outcome.code(), Some(2));
    let told = "heapattach.toml: [check] cannot have `max-leek`; did you mean `max-leak`?\n";
    assert!(outcome.stderr.ends_with(told), "{}", outcome.stderr);
    project.write("[check]\nmax-leak = 'much'\n", 0o644);
    let outcome = project.check(&[]);
    assert_eq!(outcome.code(), Some(2));
    assert!(outcome.stderr.contains("heapattach.toml: --max-leak=much\n"), "{}", outcome.stderr);
    project.write("[check]\njunit = '/tmp/leaks.xml'\n", 0o644);
    let outcome = project.check(&[]);
    assert!(outcome.stderr.contains("`/tmp/leaks.xml` is not below its folder"));
    // Others have no options.
    Heapattach::new(["status"]).folder(&project.folder).run().expect(0);
}

#[test]
fn a_file_that_others_can_write_to_is_refused_unless_it_is_named() {
    let Some(project) = Project::new() else { return };
    project.write("[check]\nmax-leak = '1KiB'\n", 0o666);
    let outcome = project.check(&[]);
    assert_eq!(outcome.code(), Some(2));
    let told = "other users can write to it (mode 666); name it with --config";
    assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
    let path = project.folder.join("heapattach.toml").display().to_string();
    assert_eq!(project.check(&["--config", &path]).code(), Some(0));
}
