//! `heapattach completions SHELL`: clap writes what it knows, and pids are asked of heapattach
//! itself when they are wanted.
//!
//! clap can also ask for everything at that moment, but calls that unstable. Until it does not, the
//! scripts are ordinary ones in which the places for a pid are filled in here.

use std::fmt::Write;

use clap::CommandFactory;
use clap_complete::aot;

use crate::{
    args::{Cli, CompletionsArgs, Shell},
    exit_status::Exit,
    output::print,
};

/// A line of the list of processes.
const COMMAND: usize = 60;

/// Asks for a pid in bash; `ps` and others know the pids alone.
const BASH_PIDS: &str =
    r#"COMPREPLY=($(compgen -W "$(heapattach completions --pids | cut -f1)" -- "${cur}"))"#;

/// The same in zsh, with names.
const ZSH_PIDS: &str = r#"_heapattach_pids() {
    local -a pids
    pids=("${(@f)$(heapattach completions --pids | tr '\t' ':')}")
    _describe -V process pids
}
"#;

/// Prints the script.
pub fn completions(args: &CompletionsArgs) -> Exit {
    let text = args.shell.map_or_else(list, script);
    print(text.trim_end(), Exit::Done)
}

/// The processes that the user may want to attach to: pid, tab, command line.
fn list() -> String {
    let mut lines = String::new();
    for (pid, command) in processes() {
        // Writing into a string cannot fail.
        let _ = writeln!(lines, "{pid}\t{command}");
    }
    lines
}

fn script(shell: Shell) -> String {
    let mut out = Vec::new();
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    match shell {
        Shell::Bash => aot::generate(aot::Bash, &mut command, name, &mut out),
        Shell::Zsh => aot::generate(aot::Zsh, &mut command, name, &mut out),
        Shell::Fish => aot::generate(aot::Fish, &mut command, name, &mut out),
    }
    let text = String::from_utf8_lossy(&out);
    match shell {
        Shell::Bash => with_bash_pids(&text),
        Shell::Zsh => with_zsh_pids(&text),
        Shell::Fish => with_fish_pids(&text),
    }
}

/// What follows `--pid)` and `-p)` is a list of files by default.
fn with_bash_pids(script: &str) -> String {
    let (mut out, mut is_pid) = (String::new(), false);
    for line in script.lines() {
        let case = line.trim();
        is_pid = matches!(case, "--pid)" | "-p)") || is_pid && case != "return 0";
        let indent = &line[..line.len() - line.trim_start().len()];
        if is_pid && case.starts_with("COMPREPLY=") {
            out.push_str(indent);
            out.push_str(BASH_PIDS);
        } else {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

/// The value of an option stands between colons, and `_default` completes it.
fn with_zsh_pids(script: &str) -> String {
    let script = script.replace(":PID:_default", ":PID:_heapattach_pids");
    match script.split_once("\n_heapattach() {") {
        Some((head, body)) => format!("{head}\n{ZSH_PIDS}\n_heapattach() {{{body}"),
        None => script,
    }
}

fn with_fish_pids(script: &str) -> String {
    let lines = script.lines().map(|line| {
        let takes_pid = line.contains(" -l pid ") && line.contains(" -r");
        let pids = if takes_pid { " -f -a \"(heapattach completions --pids)\"" } else { "" };
        format!("{line}{pids}\n")
    });
    lines.collect()
}

/// Those with memory of their own; threads of the kernel have no command line.
fn processes() -> Vec<(u32, String)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let own = std::process::id();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse::<u32>().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let words = line.split(|&byte| byte == 0).map(String::from_utf8_lossy);
            let command = words.collect::<Vec<_>>().join(" ");
            // Nothing that a shell would take for anything but a word.
            let plain = |c: char| if c.is_control() || "`$\\\"'".contains(c) { ' ' } else { c };
            let command: String = command.trim().chars().take(COMMAND).map(plain).collect();
            (pid != own && !command.is_empty()).then_some((pid, command))
        })
        .collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_for_a_pid_asks_for_pids() {
        // Attach, heap, allocator, check, top, view, serve, doctor and detach, by short and long name.
        assert_eq!(script(Shell::Bash).matches(BASH_PIDS).count(), 18);
        let zsh = script(Shell::Zsh);
        assert_eq!(zsh.matches(":PID:_heapattach_pids").count(), 18);
        assert!(zsh.contains(ZSH_PIDS) && !zsh.contains(":PID:_default"));
        assert_eq!(script(Shell::Fish).matches("(heapattach completions --pids)").count(), 9);
    }

    #[test]
    fn this_process_has_a_parent_that_is_listed() {
        let parent = std::os::unix::process::parent_id();
        assert!(processes().iter().any(|(pid, command)| *pid == parent && !command.is_empty()));
        assert!(processes().iter().all(|(_, command)| !command.contains(['\n', '\t', '$', '`'])));
    }
}
