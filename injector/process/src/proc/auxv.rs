//! The auxiliary vector: what the kernel told the program at its start. Pure.

use crate::addr::RemoteAddr;

pub(crate) const AT_PHDR: u64 = 3;
const AT_PHNUM: u64 = 5;
pub(crate) const AT_BASE: u64 = 7;
pub(crate) const AT_ENTRY: u64 = 9;
pub(crate) const AT_SYSINFO_EHDR: u64 = 33;

/// The entries we use; all of them hostile until checked against the memory map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Auxv {
    /// Program headers of the executable, in memory.
    pub phdr: Option<RemoteAddr>,
    /// How many of them.
    pub phnum: u64,
    /// Where the dynamic loader lies; absent in static programs.
    pub interpreter: Option<RemoteAddr>,
    /// First instruction of the executable.
    pub entry: Option<RemoteAddr>,
    /// The vDSO.
    pub vdso: Option<RemoteAddr>,
}

impl Auxv {
    /// Reads pairs of words up to the terminator.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut auxv = Self::default();
        for pair in bytes.chunks_exact(16) {
            let (Some(tag), Some(value)) = (pair.first_chunk::<8>(), pair.last_chunk::<8>()) else {
                break;
            };
            let value = u64::from_le_bytes(*value);
            let address = (value != 0).then(|| RemoteAddr::new(value));
            match u64::from_le_bytes(*tag) {
                0 => break,
                AT_PHDR => auxv.phdr = address,
                AT_PHNUM => auxv.phnum = value,
                AT_BASE => auxv.interpreter = address,
                AT_ENTRY => auxv.entry = address,
                AT_SYSINFO_EHDR => auxv.vdso = address,
                _ => {}
            }
        }
        auxv
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_up_to_the_terminator() {
        let words: [u64; 6] = [AT_PHNUM, 11, 0, 0, AT_PHNUM, 99];
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        assert_eq!(Auxv::parse(&bytes).phnum, 11);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_give_a_vector(bytes: Vec<u8>) {
            let _ = Auxv::parse(&bytes);
        }
    }
}
