//! The command itself, built with the feature that lets a test make any call of the engine fail.

use std::process::ExitCode;

fn main() -> ExitCode {
    heapattach::main()
}
