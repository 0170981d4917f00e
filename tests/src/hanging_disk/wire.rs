//! What the kernel asks a file system in user space, and how it is answered: the protocol of `/dev/fuse`,
//! as far as plain files in one folder need it.

/// Numbers of the requests, as in `linux/fuse.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// What file has this name.
    Lookup,
    /// What is to be known of a file.
    GetAttributes,
    /// Something of that is to change: the length, for one.
    SetAttributes,
    /// A name is to go.
    Unlink,
    /// A file gets another name.
    Rename,
    /// The same with flags.
    Rename2,
    /// A file, or the folder, is opened.
    Open,
    /// Bytes of a file.
    Read,
    /// Bytes for a file.
    Write,
    /// How full it is.
    Statistics,
    /// A new file.
    Create,
    /// The first request.
    Init,
    /// What is answered by saying that it was done.
    Done,
    /// A request that gets no answer.
    Unanswered,
    /// What we do not know.
    Unknown,
}

/// The head of a request.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// What is asked.
    pub request: Request,
    /// Which answer is the one to it.
    pub unique: u64,
    /// About which file.
    pub node: u64,
}

/// Bytes of the head.
const HEAD: usize = 40;
/// The answer begins with so many.
const ANSWER: usize = 16;
/// Blocks of a file.
const BLOCK: u64 = 512;
/// Version 7.31 of the protocol.
const VERSION: [u32; 2] = [7, 31];
/// A reader waits for pages of memory, not for us, and so can be killed: as on other disks.
const ASYNC_READ: u32 = 1 << 0;
/// Writes of more than a page are understood.
const BIG_WRITES: u32 = 1 << 5;
/// The longest write.
pub const LONGEST: u32 = 1 << 17;
/// What is in memory of a file stays there when it is opened again.
const KEEP_CACHE: u32 = 1 << 1;
/// A notice without a request: what is in memory of a file is to go.
const INVALID: u32 = 2;

impl Head {
    /// Splits a request.
    pub fn of(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let request = match u32_at(bytes, 4)? {
            1 => Request::Lookup,
            2 | 36 | 42 => Request::Unanswered,
            3 => Request::GetAttributes,
            4 => Request::SetAttributes,
            10 => Request::Unlink,
            12 => Request::Rename,
            14 | 27 => Request::Open,
            15 => Request::Read,
            16 => Request::Write,
            17 => Request::Statistics,
            // To close, to sync, to list a folder that seems empty, to end.
            18 | 20 | 25 | 28 | 29 | 30 | 38 => Request::Done,
            26 => Request::Init,
            35 => Request::Create,
            45 => Request::Rename2,
            _ => Request::Unknown,
        };
        let head = Self { request, unique: u64_at(bytes, 8)?, node: u64_at(bytes, 16)? };
        Some((head, bytes.get(HEAD..)?))
    }
}

/// A number out of a request.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The same of twice the width.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Names that end with a zero byte.
pub fn names(bytes: &[u8]) -> Vec<String> {
    let names = bytes.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// An answer: an error number of the kernel, or what was asked for.
pub fn answer(unique: u64, content: Result<Vec<u8>, i32>) -> Vec<u8> {
    let (error, content) = content.map_or_else(|error| (-error, Vec::new()), |all| (0, all));
    framed(error.cast_unsigned(), unique, &content)
}

/// The notice that the first so many bytes of a file are not to stay in memory; 0 for the whole file.
pub fn invalid(node: u64, length: u64) -> Vec<u8> {
    framed(INVALID, 0, &words(&[node, 0, length]))
}

fn framed(code: u32, unique: u64, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(ANSWER + content.len()).expect("short");
    let mut bytes = [length, code].map(u32::to_le_bytes).concat();
    bytes.extend(unique.to_le_bytes());
    bytes.extend(content);
    bytes
}

/// What a file is: its number, its mode, its length.
#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    /// Its number.
    pub node: u64,
    /// Its kind and its permissions.
    pub mode: u32,
    /// Its length.
    pub length: u64,
}

impl Attributes {
    fn bytes(self) -> Vec<u8> {
        let Self { node, mode, length } = self;
        let mut bytes = words(&[node, length, length.div_ceil(BLOCK), 0, 0, 0]);
        // Parts of the times, mode, links, owner and group, device, size of a block, flags.
        bytes.extend(halves(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0]));
        bytes
    }

    /// As the answer to a request for them; they hold for a second.
    pub fn told(self) -> Vec<u8> {
        [words(&[1]), halves(&[0, 0]), self.bytes()].concat()
    }

    /// As the answer to a request for the file by its name.
    pub fn entry(self) -> Vec<u8> {
        [words(&[self.node, 0, 1, 1]), halves(&[0, 0]), self.bytes()].concat()
    }
}

/// The answer to who opens a file.
pub fn opened() -> Vec<u8> {
    [words(&[0]), halves(&[KEEP_CACHE, 0])].concat()
}

/// The answer to the first request: nothing is read that was not asked for.
pub fn init() -> Vec<u8> {
    let [major, minor] = VERSION;
    let read_ahead = 0;
    let mut bytes = halves(&[major, minor, read_ahead, ASYNC_READ | BIG_WRITES, 0, LONGEST, 1]);
    bytes.resize(64, 0);
    bytes
}

/// The answer to who asks how full it is: not at all.
pub fn statistics() -> Vec<u8> {
    let many = 1 << 20;
    let mut bytes = words(&[many, many, many, many, many]);
    bytes.extend(halves(&[4096, 255, 4096]));
    bytes.resize(80, 0);
    bytes
}

/// How many bytes were written.
pub fn written(bytes: u32) -> Vec<u8> {
    halves(&[bytes, 0])
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn halves(halves: &[u32]) -> Vec<u8> {
    halves.iter().flat_map(|half| half.to_le_bytes()).collect()
}
