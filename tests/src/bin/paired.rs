//! Measures what heapattach costs and prints it as Markdown, with `--json` as JSON.
//!
//! ```text
//! cargo build --release -p heapattach-tests
//! HEAPATTACH_UNDER_TEST=target/release/heapattach target/release/paired --rounds 21
//! ```

use std::process::ExitCode;

use heapattach_tests::measure::{Results, Rounds};

const USAGE: &str = "usage: paired [--rounds N] [--only stops|pairs|recording|depth] [--json]";
const ROUNDS: u32 = 11;

fn main() -> ExitCode {
    let (mut rounds, mut json, mut only) = (ROUNDS, false, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => json = true,
            "--only" => only = arguments.next(),
            "--rounds" => match arguments.next().and_then(|text| text.parse().ok()) {
                Some(number) if number > 0 => rounds = number,
                _ => return usage(),
            },
            _ => return usage(),
        }
    }
    let results = Results::measure(Rounds(rounds), only.as_deref());
    if json {
        let text = serde_json::to_string_pretty(&results).expect("plain numbers and names");
        println!("{text}");
    } else {
        println!("{results}");
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}
