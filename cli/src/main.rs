//! The `heapattach` command; everything is in the library.

fn main() -> std::process::ExitCode {
    heapattach::main()
}
