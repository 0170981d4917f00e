//! Measures heapattach beside its peers: `tests/src/peers/` tells how, `heapattach help peers` what came out.
//!
//! ```text
//! cargo run --release -p heapattach-tests --bin peers -- --out DIR
//! ```
//!
//! Exit status 0: measured (and, with `--compare`, the two runs agree); 1: they do not, or nothing
//! could be written; 2: wrong usage.

use std::process::ExitCode;

use heapattach_tests::peers::{Options, measure, settle};

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    match settle().and_then(|()| measure(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("peers: {why}");
            ExitCode::FAILURE
        }
    }
}
