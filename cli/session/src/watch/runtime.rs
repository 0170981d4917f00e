//! Programs that manage memory of their own, past the functions that are hooked: which one it is, and what
//! is seen of it.

use std::{
    fs::File,
    io::{ErrorKind, Read},
};

use heapattach_process::proc::Process;

/// A note of the linker of Go: the length of the name, which is `Go`, the length of what follows, a
/// type.
const GO_NAME: &[u8] = b"Go\0\0";
const GO_NAME_LENGTH: &[u8] = &[4, 0, 0, 0];
const GO_TYPE: &[u8] = &[4, 0, 0, 0];
/// It is among the first bytes of the file.
const HEAD: u64 = 16_384;

/// Which one it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// A program of Go, with C in it or the hooks would have found nothing.
    Go,
    /// PHP with the allocator of Zend.
    Php,
}

impl Runtime {
    /// Of a process, if it is one of these.
    pub fn of(process: &Process) -> Option<Self> {
        let link = format!("/proc/{}/exe", process.pid());
        let name = std::fs::read_link(&link).ok()?;
        let name = name.file_name()?.to_string_lossy().into_owned();
        let environment = process.read("environ").unwrap_or_default();
        // What the link leads to was executed, so it is a regular file: opening it waits for nothing.
        let head = File::open(link).and_then(|file| head(&file)).unwrap_or_default();
        Self::told(&name, &environment, &head)
    }

    /// The way to tell it of.
    pub fn words(self) -> &'static str {
        match self {
            Self::Go => {
                "this is Go: its heap is not seen by these hooks, only what C code in it allocates"
            }
            Self::Php => {
                "this is PHP: Zend's allocator serves its requests out of chunks that it maps, and \
                 only these are seen; started with USE_ZEND_ALLOC=0 each block is"
            }
        }
    }

    fn told(name: &str, environment: &[u8], head: &[u8]) -> Option<Self> {
        let is_off = environment.split(|&byte| byte == 0).any(|one| one == b"USE_ZEND_ALLOC=0");
        match name {
            _ if has_go_note(head) => Some(Self::Go),
            name if name.starts_with("php") && !is_off => Some(Self::Php),
            _ => None,
        }
    }
}

fn head(file: &File) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match file.take(HEAD).read_to_end(&mut bytes) {
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => Err(error),
        _ => Ok(bytes),
    }
}

fn has_go_note(head: &[u8]) -> bool {
    head.windows(16).any(|note| {
        note.starts_with(GO_NAME_LENGTH) && &note[8..12] == GO_TYPE && note.ends_with(GO_NAME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_is_known_by_its_note_and_php_by_its_name() {
        let mut file = vec![0x7f; 3000];
        file.extend_from_slice(b"\x04\0\0\0\x53\0\0\0\x04\0\0\0Go\0\0id");
        assert_eq!(Runtime::told("server", b"", &file), Some(Runtime::Go));
        assert_eq!(Runtime::told("server", b"", &file[..3010]), None);
        assert_eq!(Runtime::told("php8.2", b"A=1\0B=2\0", b""), Some(Runtime::Php));
        assert_eq!(Runtime::told("php-fpm8.2", b"A=1\0USE_ZEND_ALLOC=0\0", b""), None);
        assert_eq!(Runtime::told("", &[], &[]), None);
    }

    #[test]
    fn this_is_neither() {
        let own = Process::open(std::process::id().cast_signed()).unwrap();
        assert_eq!(Runtime::of(&own), None);
    }
}
