//! Programs whose runtime does not free at exit: that is said in a line and left out, except for what their
//! extensions leak.

use std::{path::Path, process::Command};

use heapattach_tests::{
    check,
    compile::{Source, is_there},
    skip::skip,
};

#[test]
fn what_a_runtime_keeps_is_left_out_by_name_and_what_others_lose_with_it_is_found() {
    let Some(runtime) =
        Source::new("runtime.c").flag("-DRUNTIME").flag("-shared").flag("-fPIC").build()
    else {
        return;
    };
    let extension = Source::new("runtime.c").flag("-DEXTENSION").flag("-shared").flag("-fPIC");
    let Some(extension) = extension.build() else { return };
    let library = runtime.to_str().expect("a plain path");
    let Some(program) = Source::new("runtime.c").flag(library).build() else { return };
    let extension = extension.to_str().expect("a plain path");
    let result = check::run(&program, &[extension], &[], &[]);
    assert_eq!(result.sum("direct"), (777 + 555 + 111, 3), "{}", result.report);
    let told = result.check()["runtimes"].to_string();
    for part in
        ["Ruby does not free at exit", "300 B in 1 block left out", "--no-builtin-suppressions"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    let rules = result.check()["rules"].to_string();
    assert!(rules.contains("runtime:Ruby"), "{rules}");
    let result = check::run(&program, &[extension], &[], &["--no-builtin-suppressions"]);
    assert_eq!(result.sum("direct"), (300 + 777 + 555 + 111, 4), "{}", result.report);
    let told = result.check()["runtimes"].to_string();
    assert!(told.contains("nothing of it is left out"), "{told}");
}

/// A real one, with a library that it calls by its foreign function interface.
#[test]
fn ruby_is_clean_and_what_a_library_of_it_loses_is_found() {
    if !is_there("ruby") {
        return skip("no ruby here", "apt-get install ruby");
    }
    let Some(library) = Source::new("extension_leak.c").flag("-shared").flag("-fPIC").build()
    else {
        return;
    };
    let script = "require 'fiddle'\n\
        f = Fiddle::Function.new(Fiddle.dlopen(ARGV[0])['lose'], [], Fiddle::TYPE_VOID)\n\
        (ARGV[1].to_i).times { f.call }\n";
    let library = library.to_str().expect("a plain path");
    for (times, lost) in [("0", 0), ("20", 20 * 777)] {
        let words = ["-e", script, library, times];
        let result = check::run(Path::new("ruby"), &words, &[], &[]);
        let findings = result.check()["findings"].as_array().cloned().unwrap_or_default();
        let own = |finding: &serde_json::Value| finding["frames"].to_string().contains("\"lose\"");
        let bytes = |finding: &serde_json::Value| finding["own"]["bytes"].as_u64().unwrap_or(0);
        let found: u64 = findings.iter().filter(|f| own(f)).map(bytes).sum();
        // Some are led to by words of the interpreter's stack and by registers, which it leaves as they
        // are: of twenty not many.
        assert!((lost / 2..=lost).contains(&found), "{times}: {findings:?}");
    }
}

/// Whether a check of `command` is clean, and says of which runtime what it left out.
fn is_clean_but_for(name: &str, command: &[&str], env: &[(&str, &str)]) {
    let result = check::run(Path::new(command[0]), &command[1..], env, &[]);
    let told = result.check()["runtimes"].to_string();
    assert!(told.contains(&format!("{name} does not free at exit")), "{told}: {}", result.report);
    assert_eq!(result.code, Some(0), "{name}: {}", result.talk);
    assert_eq!(result.sum("direct"), (0, 0), "{name}: {}", result.report);
}

#[test]
fn emacs_is_clean() {
    if !is_there("emacs") {
        return skip("no emacs here", "apt-get install emacs-nox");
    }
    is_clean_but_for("Emacs", &["emacs", "--batch", "--eval", "(message \"done\")"], &[]);
}

#[test]
fn javas_launcher_is_clean() {
    if !is_there("java") {
        return skip("no java here", "apt-get install default-jdk-headless");
    }
    is_clean_but_for("Java's launcher", &["java", "-version"], &[]);
}

#[test]
fn rsync_is_clean() {
    if !is_there("rsync") {
        return skip("no rsync here", "apt-get install rsync");
    }
    is_clean_but_for("rsync", &["rsync", "--version"], &[]);
}

/// What gcc runs to link: it has its command by the one who starts it.
#[test]
fn the_linkers_driver_of_gcc_is_clean() {
    let found = Command::new("gcc").arg("-print-prog-name=collect2").output().ok();
    let Some(collect2) = found.and_then(|output| String::from_utf8(output.stdout).ok()) else {
        return skip("no gcc here", "apt-get install gcc");
    };
    let env = [("COLLECT_GCC", "gcc"), ("COLLECT_GCC_OPTIONS", "'-mtune=generic'")];
    is_clean_but_for("gcc's collect2", &[collect2.trim(), "--version"], &env);
}
