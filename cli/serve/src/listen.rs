//! Where is listened: an address of TCP, or a socket in a folder that only its owner can use.

use std::{
    fs,
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::{
            fs::FileTypeExt,
            net::{UnixListener, UnixStream},
        },
    },
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::stat::{Mode, umask},
};

use crate::stop::Stop;

/// Between two looks whether all is over, in milliseconds, where nothing tells.
const PAUSE: u16 = 100;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address and a port; 0 is any.
    Tcp(SocketAddr),
    /// A path.
    Unix(PathBuf),
}

impl Address {
    /// As it is typed: `127.0.0.1:7070`, `:7070`, `unix:/run/heapattach.sock`.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::Unix(path.into()));
        }
        let whole = match text.strip_prefix(':') {
            Some(port) => format!("127.0.0.1:{port}"),
            None => text.replacen("localhost:", "127.0.0.1:", 1),
        };
        let wrong =
            || format!("`{text}` is not a valid address; need ADDRESS:PORT, :PORT or unix:PATH");
        whole.parse().map(Self::Tcp).map_err(|_| wrong())
    }

    /// Whether other machines can reach it.
    pub fn is_public(&self) -> bool {
        match self {
            Self::Tcp(address) => !is_loopback(address.ip()),
            Self::Unix(_) => false,
        }
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// Something that is listened on.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A socket at a path, which goes with it.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Begins to listen.
    ///
    /// # Errors
    /// If that is not possible there; why, in words.
    pub fn bind(address: &Address) -> Result<Self, String> {
        match address {
            Address::Tcp(at) => TcpListener::bind(at)
                .map(Self::Tcp)
                .map_err(|error| format!("{at} cannot be listened on: {error}")),
            Address::Unix(path) => bind_unix(path)
                .map(|listener| Self::Unix(listener, path.clone()))
                .map_err(|error| format!("{} cannot be listened on: {error}", path.display())),
        }
    }

    /// Where, as one asks there.
    pub fn url(&self) -> String {
        match self {
            Self::Tcp(listener) => {
                listener.local_addr().map_or_else(|_| String::new(), |at| format!("http://{at}"))
            }
            Self::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }

    /// Waits for a client, or for the end.
    pub fn wait(&self, stop: &Stop) {
        let wire = stop.wire();
        let pause = if wire.is_some() { PollTimeout::NONE } else { PollTimeout::from(PAUSE) };
        let all = [Some(self.as_fd()), wire].into_iter().flatten();
        let mut fds: Vec<_> = all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let _ = poll(&mut fds, pause);
    }

    /// The next connection.
    ///
    /// # Errors
    /// Those of the system: too many open files, say.
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
            Self::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        }
    }

    /// Has [`Self::accept`] return at once.
    ///
    /// # Errors
    /// Those of the system.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => listener.set_nonblocking(true),
            Self::Unix(listener, _) => listener.set_nonblocking(true),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = fs::remove_file(path);
        }
    }
}

/// A socket that is left over from a process that was killed makes room; nothing else does.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        fs::remove_file(path)?;
    }
    // From its first moment on no other user can open it. No other thread of ours makes files yet.
    let before = umask(Mode::from_bits_truncate(0o177));
    let listener = UnixListener::bind(path);
    umask(before);
    listener
}

/// A connection.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// Of a socket at a path: a process that can open it may ask.
    Unix(UnixStream),
}

impl Stream {
    /// How long to wait for bytes, and for room for bytes.
    pub fn set_timeouts(&self, read: Duration, write: Duration) {
        // Without them a connection takes one of the places for longer, no more.
        let _ = match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(read)).and(stream.set_write_timeout(Some(write)))
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(read)).and(stream.set_write_timeout(Some(write)))
            }
        };
    }

    /// Has it wait for bytes, whatever its listener does.
    pub fn set_blocking(&self) {
        let _ = match self {
            Self::Tcp(stream) => stream.set_nonblocking(false),
            Self::Unix(stream) => stream.set_nonblocking(false),
        };
    }

    /// Has nothing be waited for.
    pub fn set_nonblocking(&self) {
        let _ = match self {
            Self::Tcp(stream) => stream.set_nonblocking(true),
            Self::Unix(stream) => stream.set_nonblocking(true),
        };
    }

    /// Whether only who may open a file can have made it.
    pub fn is_private(&self) -> bool {
        matches!(self, Self::Unix(_))
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_typed() {
        let tcp = |text: &str| Ok(Address::Tcp(text.parse().unwrap()));
        assert_eq!(Address::parse(":7070"), tcp("127.0.0.1:7070"));
        assert_eq!(Address::parse("localhost:1"), tcp("127.0.0.1:1"));
        assert_eq!(Address::parse("[::1]:1"), tcp("[::1]:1"));
        assert_eq!(Address::parse("unix:/a/b"), Ok(Address::Unix("/a/b".into())));
        for wrong in ["", "7070", "unix:", "host:1", ":x"] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_loopback_is_not_public() {
        for (text, is_public) in [
            (":1", false),
            ("127.9.9.9:1", false),
            ("[::1]:1", false),
            ("[::ffff:127.0.0.1]:1", false),
            ("0.0.0.0:1", true),
            ("[::]:1", true),
            ("192.168.0.1:1", true),
        ] {
            assert_eq!(Address::parse(text).unwrap().is_public(), is_public, "{text}");
        }
    }
}
