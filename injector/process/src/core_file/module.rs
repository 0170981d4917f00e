//! A file that was mapped: whether the one of its name is the very build, and how its parts were mapped.

use std::{fs::File, path::Path};

use object::{
    Endianness,
    elf::{FileHeader64, PF_R, PF_W, PF_X, PT_LOAD},
    read::elf::{FileHeader, ProgramHeader},
};

use super::{PAGE, open_regular, read_at};
use crate::proc::build_id::{self, BuildId};

/// Headers and notes stand at the beginning.
const HEAD: usize = 16 << 10;

/// A file that agrees with the core.
#[derive(Debug)]
pub(super) struct Module {
    pub file: File,
    /// Its length.
    pub bytes: u64,
    head: Vec<u8>,
}

/// Permissions: read, write, execute.
pub(super) type Permissions = (bool, bool, bool);

impl Module {
    /// The file of this path, if it is the one whose first bytes the core has. What the user names himself
    /// may be a build without an id.
    pub fn open(path: &Path, mapped_head: &[u8], is_named: bool) -> Result<Self, &'static str> {
        let file = open_regular(path).map_err(|_| "it is not there any more")?;
        let bytes = file.metadata().map_err(|_| "it cannot be read")?.len();
        let mut head = vec![0; HEAD];
        let read = read_at(&file, 0, &mut head);
        head.truncate(read);
        if !head.starts_with(b"\x7fELF") {
            return Err("neither a program nor a library");
        }
        if mapped_head.is_empty() {
            return Err("the core has no page of it to compare");
        }
        let agrees = match (BuildId::in_head(mapped_head), BuildId::in_head(&head)) {
            (Some(mapped), Some(own)) => mapped == own,
            (None, None) if build_id::of_go(&head).is_some() => {
                build_id::of_go(mapped_head) == build_id::of_go(&head)
            }
            (None, None) if is_named => head.starts_with(mapped_head),
            (None, None) => return Err("it has no build id"),
            _ => false,
        };
        agrees.then_some(Self { file, bytes, head }).ok_or("it is another build")
    }

    /// How the part that begins at this offset is mapped.
    pub fn permissions(&self, offset: u64) -> Permissions {
        type Header = FileHeader64<Endianness>;
        let found = || {
            let header = Header::parse(&self.head[..]).ok()?;
            let endian = header.endian().ok()?;
            let segments = header.program_headers(endian, &self.head[..]).ok()?;
            let segment = segments.iter().find(|segment| {
                let start = segment.p_offset(endian) & !(PAGE - 1);
                let end = segment.p_offset(endian).saturating_add(segment.p_filesz(endian));
                segment.p_type(endian) == PT_LOAD && (start..end).contains(&offset)
            })?;
            let flags = segment.p_flags(endian).0;
            Some((flags & PF_R.0 != 0, flags & PF_W.0 != 0, flags & PF_X.0 != 0))
        };
        found().unwrap_or((true, false, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_build_that_was_mapped_agrees() {
        let path = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let module = Module::open(&path, &bytes[..4096], false).unwrap();
        assert_eq!(module.permissions(0), (true, false, false));
        assert_eq!(
            Module::open(&path, b"", false).err(),
            Some("the core has no page of it to compare")
        );
        let other = std::fs::read("/proc/self/exe").unwrap();
        let mut other = other[..4096].to_vec();
        // Its id is in there somewhere; a head of which a byte is another is another build.
        let id = BuildId::in_head(&other).unwrap();
        let at = other.windows(id.bytes().len()).position(|w| w == id.bytes()).unwrap();
        other[at] ^= 1;
        assert_eq!(Module::open(&path, &other, false).err(), Some("it is another build"));
        assert!(Module::open(Path::new("/dev/null"), &bytes[..4096], false).is_err());
    }
}
