//! The disk that the recording goes to takes nothing any more, without an error: the target is let go
//! all the same, and we say what is missing.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use heapattach_tests::{
    attached::{Attached, INTERRUPTED},
    command::Hooks,
    deadline::{PATIENCE, poll},
    fixture::Launch,
    skip::skip,
    trace::Before,
};
use nix::{sys::signal::Signal, unistd::geteuid};

/// The file system has so many bytes.
const SIZE: u64 = 64 << 20;

/// A file system in a file, that can be frozen.
struct Ice {
    folder: PathBuf,
    is_frozen: bool,
}

fn does(program: &str, args: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    let output = command.args(args).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("{program}: {error}")),
    }
}

impl Ice {
    fn new() -> Result<Self, String> {
        let folder = std::env::temp_dir().join(format!("heapattach-ice-{}", std::process::id()));
        let text = folder.to_str().expect("a path of ours");
        let image = format!("{text}.image");
        fs::create_dir(&folder).map_err(|error| error.to_string())?;
        let ice = Self { folder: folder.clone(), is_frozen: false };
        let file = File::create(&image).and_then(|file| file.set_len(SIZE));
        file.map_err(|error| error.to_string())?;
        let made = does("mkfs.ext4", &["-q", "-F", &image])
            .and_then(|()| does("mount", &["-o", "loop", &image, text]));
        let _ = fs::remove_file(&image);
        made.map(|()| ice)
    }

    fn freeze(&mut self) -> Result<(), String> {
        does("fsfreeze", &["-f", self.text()])?;
        self.is_frozen = true;
        Ok(())
    }

    fn text(&self) -> &str {
        self.folder.to_str().expect("a path of ours")
    }
}

impl Drop for Ice {
    fn drop(&mut self) {
        if self.is_frozen {
            let _ = does("fsfreeze", &["-u", self.text()]);
        }
        // A process that was stuck in it has to come out first.
        let _ = poll(PATIENCE, || does("umount", &[self.text()]).ok());
        let _ = fs::remove_dir(&self.folder);
    }
}

fn is_mapped(pid: i32) -> bool {
    let maps = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("maps"));
    maps.is_ok_and(|maps| maps.contains("/memfd:heapattach"))
}

#[test]
fn a_disk_that_hangs_does_not_keep_the_target() {
    if !geteuid().is_root() {
        return skip("only root may mount and freeze", "run the tests as root");
    }
    let mut ice = match Ice::new() {
        Ok(ice) => ice,
        Err(why) => return skip(&why, "allow loop devices, install e2fsprogs and util-linux"),
    };
    let Some(launch) = Launch::new("steady.c") else { return };
    let mut fixture = launch.start();
    fixture.advance(100);
    let before = Before::of(&mut fixture);
    let output = ice.folder.join("a").to_str().expect("a path of ours").to_owned();
    let command = Attached::command(fixture.pid(), Hooks::Auto).arg("--all").arg("-o").arg(output);
    let attached = Attached::start(command, &mut fixture);
    fixture.advance(1000);
    if let Err(why) = ice.freeze() {
        attached.end();
        return skip(&why, "use a kernel that can freeze ext4");
    }
    // More than a second: something is to be written.
    let deadline = std::time::Instant::now() + Duration::from_secs(4);
    while std::time::Instant::now() < deadline {
        fixture.advance(1000);
    }
    let command = attached.into_command();
    assert!(is_mapped(fixture.pid()), "it is attached");
    command.signal(Signal::SIGINT);
    let gone = poll(Duration::from_secs(5), || (!is_mapped(fixture.pid())).then_some(()));
    assert!(gone.is_some(), "it is kept by a disk");
    fixture.advance(1000);
    let outcome = command.wait().expect(INTERRUPTED);
    let report = outcome.report();
    let error = report.error.unwrap_or_default();
    assert!(error.contains("the disk has accepted nothing for"), "{error}");
    assert!(report.heap.allocated.bytes.value > 0.0, "what happened is reported");
    before.assert_equal(&mut fixture, "after a disk that hangs");
    fixture.finish();
}
