//! Prints the table of a Go release: `make_table PROGRAM MINOR`, of a program that was built with it and not
//! stripped. Kept as `cli/golang/src/tables/go1.MINOR.txt`.

use std::{env, fs::File, io};

fn main() -> io::Result<()> {
    let words: Vec<String> = env::args().collect();
    let [_, program, minor] = &words[..] else {
        return Err(io::Error::other("usage: make_table PROGRAM MINOR"));
    };
    let minor = minor.parse().map_err(io::Error::other)?;
    print!("{}", heapattach_golang::make_table(&|| File::open(program), minor)?);
    Ok(())
}
