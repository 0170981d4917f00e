//! Prints what `heapattach check` exits with on each leaking and each clean fixture, beside what is to
//! come out.
//!
//! ```text
//! cargo run -p heapattach-tests --bin verdicts
//! ```
//!
//! Exit status 0: all are as they are to be; 1: one is not, or a fixture could not be built.

use std::process::ExitCode;

use heapattach_tests::check::verdicts::{Verdict, all};

fn main() -> ExitCode {
    println!("{:>8} {:>6}       heapattach check", "expected", "actual");
    let tell = |verdict: &Verdict| {
        let actual = verdict.actual.map_or("signal".to_owned(), |code| code.to_string());
        let word = if verdict.is_right() { "ok" } else { "WRONG" };
        println!("{:>8} {actual:>6} {word:5} {}", verdict.expected, verdict.name);
        if !verdict.is_right() {
            println!("{}", verdict.talk);
        }
    };
    match all(tell) {
        Some(verdicts) => {
            let wrong = verdicts.iter().filter(|verdict| !verdict.is_right()).count();
            println!("{} checks, {wrong} wrong", verdicts.len());
            if wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        None => ExitCode::FAILURE,
    }
}
