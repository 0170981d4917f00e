//! The `heapattach` command.
fn main() {}
