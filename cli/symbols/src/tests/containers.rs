//! A target with a file tree and process numbers of its own.

use std::{
    fs,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use heapattach_process::proc::{Process, maps};

use crate::Symbols;
use crate::tests::folder::{Folder, skip};

const SOURCE: &str = "#include <stdio.h>\n#include <unistd.h>\n\
    __attribute__((noinline)) int inside(int a) { return a + getpid(); }\n\
    int main(void) { int sum = inside(7); puts(\"ready\"); fflush(stdout); pause(); return sum; }\n";

/// A program in a tree of its own, where it is process 1.
struct Container {
    parent: Child,
    child: i32,
}

impl Container {
    fn start(folder: &Folder) -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--mount", "--fork", "--kill-child", "--root"]).arg(&folder.0);
        let mut parent = command.arg("/program").stdout(Stdio::piped()).spawn().ok()?;
        let mut word = [0; 6];
        let ready = std::io::Read::read_exact(parent.stdout.as_mut()?, &mut word);
        if ready.is_err() {
            let _ = parent.wait();
            return None;
        }
        let pid = parent.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        let child = children.split_whitespace().next()?.parse().ok()?;
        Some(Self { parent, child })
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.parent.kill();
        let _ = self.parent.wait();
    }
}

#[test]
fn files_and_generated_names_are_those_of_the_container() {
    let folder = Folder::new("container");
    fs::write(folder.0.join("program.c"), SOURCE).unwrap();
    folder.run("gcc -g -O1 -static -no-pie -Wl,--build-id=sha1 -o program program.c");
    let inside = folder.offset_of("program", "inside");
    // All that is known of lines is in the container, at a path that is nothing outside.
    let id = heapattach_process::proc::build_id::BuildId::of_file(
        &fs::File::open(folder.0.join("program")).unwrap(),
    );
    let (start, rest) = id.unwrap().split();
    let debug = folder.0.join("usr/lib/debug/.build-id").join(start);
    fs::create_dir_all(&debug).unwrap();
    folder.run("objcopy --only-keep-debug program program.debug");
    folder.run("strip --strip-all program");
    fs::rename(folder.0.join("program.debug"), debug.join(format!("{rest}.debug"))).unwrap();
    fs::create_dir_all(folder.0.join("tmp")).unwrap();
    // A trap: links of the container that lead to files of ours.
    std::os::unix::fs::symlink("/etc", folder.0.join("etc")).unwrap();

    let Some(container) = Container::start(&folder) else {
        return skip("no containers here", "run as root, with unshare of util-linux");
    };
    // Not before the process began: it would be an earlier one's.
    fs::write(folder.0.join("tmp/perf-1.map"), "42000 10 generated\n").unwrap();
    let process = Process::open(container.child).unwrap();
    let text = process.read("maps").unwrap();
    let mut symbols = Symbols::new();
    symbols.note(&process, &maps::parse(&text).unwrap());
    drop(container);
    let deadline = Instant::now() + Duration::from_secs(10);
    while process.is_alive() && Instant::now() < deadline {
        std::thread::yield_now();
    }
    assert!(!process.is_alive());

    symbols.note_generated();
    let frame = symbols.symbolize(inside).pop().unwrap();
    assert_eq!((frame.function.as_deref(), frame.line), (Some("inside"), Some(3)), "{frame:?}");
    assert_eq!(symbols.symbolize(0x42008)[0].function.as_deref(), Some("generated"));
    let root = symbols.modules.target_root().unwrap();
    assert!(root.open("/etc/passwd".as_ref()).is_none(), "the link leads to nothing inside");
}
