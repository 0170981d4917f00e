//! What a process was doing, for the message of a test that waited in vain.

use std::{fmt::Write, fs, path::Path};

const FILES: [&str; 5] = ["stat", "syscall", "wchan", "stack", "status"];
/// More threads than this tell nothing new.
const THREADS: usize = 40;

/// Describes every thread of `pid` as `/proc` shows it.
pub fn describe(pid: i32) -> String {
    let mut text = format!("process {pid}:\n");
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        text.push_str("  gone\n");
        return text;
    };
    let tasks: Vec<_> = tasks.filter_map(Result::ok).collect();
    for task in tasks.iter().take(THREADS) {
        describe_task(&mut text, &task.path());
    }
    if tasks.len() > THREADS {
        let _ = writeln!(text, "  ... and {} more threads", tasks.len() - THREADS);
    }
    text
}

fn describe_task(text: &mut String, task: &Path) {
    let _ = writeln!(text, " {}", task.display());
    for file in FILES {
        let content = fs::read_to_string(task.join(file)).unwrap_or_else(|e| e.to_string());
        let wanted = content.lines().filter(|line| file != "status" || is_telling(line));
        let line = wanted.collect::<Vec<_>>().join(" | ");
        let _ = writeln!(text, "  {file}: {line}");
    }
}

fn is_telling(line: &str) -> bool {
    ["State", "TracerPid", "Sig", "Shd", "Seccomp"].iter().any(|start| line.starts_with(start))
}
