//! Whether a file is compressed: that of heaptrack tells it by the end of its name, so it must be what
//! it is called.

use std::{
    io::{self, Write},
    path::Path,
};

use flate2::{Compression, write::GzEncoder};

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// The bytes as they are.
    None,
    /// Compressed by gzip.
    Gzip,
}

impl Packing {
    /// Of a file of this name.
    ///
    /// # Errors
    /// That its reader would take it for what cannot be written.
    pub fn of(name: &Path) -> io::Result<Self> {
        match name.extension().and_then(|ending| ending.to_str()) {
            Some("gz") => Ok(Self::Gzip),
            Some(ending @ ("zst" | "bz2" | "xz")) => {
                let what = format!("no .{ending} can be written; name it .gz, or without it");
                Err(io::Error::new(io::ErrorKind::Unsupported, what))
            }
            _ => Ok(Self::None),
        }
    }
}

/// Where bytes go, packed or not.
#[derive(Debug)]
pub enum Packed<W: Write> {
    /// The bytes as they are.
    Plain(W),
    /// Compressed by gzip.
    Gzip(GzEncoder<W>),
}

impl<W: Write> Packed<W> {
    /// Begins to write to `out`.
    pub fn new(out: W, packing: Packing) -> Self {
        match packing {
            Packing::None => Self::Plain(out),
            Packing::Gzip => Self::Gzip(GzEncoder::new(out, Compression::fast())),
        }
    }

    /// Ends.
    ///
    /// # Errors
    /// Those of where they go.
    pub fn finish(self) -> io::Result<()> {
        match self {
            Self::Plain(mut out) => out.flush(),
            Self::Gzip(packed) => packed.finish()?.flush(),
        }
    }
}

impl<W: Write> Write for Packed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Gzip(packed) => packed.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gzip(packed) => packed.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_its_name_says() {
        let packing = |name: &str| Packing::of(Path::new(name)).ok();
        assert_eq!(packing("x.heaptrack"), Some(Packing::None));
        assert_eq!(packing("x.heaptrack.gz"), Some(Packing::Gzip));
        assert_eq!(packing("x.heaptrack.zst"), None);
        assert_eq!(packing("x"), Some(Packing::None));
    }
}
