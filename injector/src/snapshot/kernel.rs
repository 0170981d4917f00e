//! Pointers that the kernel keeps for the target and shows in `/proc`: what it asked to be given
//! back with an event. Pure parsers; what the kernel does not show (io_uring, alternate signal
//! stacks, messages in pipes) is not here.

use heapattach_process::root::RootKind;

use super::area::Pointer;

/// What epoll gives back, out of the `fdinfo` of its descriptor.
pub fn epoll(text: &[u8]) -> Vec<Pointer> {
    let lines = text.split(|&b| b == b'\n').filter(|line| line.starts_with(b"tfd:"));
    lines.filter_map(|line| pointer(after(line, b"data:")?)).collect()
}

/// What timers give back, out of `timers`: the value of their signal.
pub fn timers(text: &[u8]) -> Vec<Pointer> {
    let lines = text.split(|&b| b == b'\n').filter(|line| line.starts_with(b"signal:"));
    lines.filter_map(|line| pointer(after(line, b"/")?)).collect()
}

/// What follows a mark in a line.
fn after<'a>(line: &'a [u8], mark: &[u8]) -> Option<&'a [u8]> {
    let at = line.windows(mark.len()).position(|window| window == mark)?;
    line.get(at + mark.len()..)
}

/// The hexadecimal number that a text begins with.
fn pointer(text: &[u8]) -> Option<Pointer> {
    let text = str::from_utf8(text).ok()?.trim_start();
    let digits = text.split(|c: char| !c.is_ascii_hexdigit()).next()?;
    let word = u64::from_str_radix(digits, 16).ok().filter(|&word| word != 0)?;
    Some(Pointer { word, holder: RootKind::Kernel, is_whole: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(pointers: Vec<Pointer>) -> Vec<u64> {
        pointers.into_iter().map(|pointer| pointer.word).collect()
    }

    #[test]
    fn epoll_gives_back_what_it_was_told() {
        let text = b"pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t7\n\
            tfd:        5 events:       19 data:     55d0c0ffee00  pos:0 ino:61af sdev:7\n\
            tfd:        6 events:       19 data:                0  pos:0 ino:61af sdev:7\n";
        assert_eq!(words(epoll(text)), [0x55d0_c0ff_ee00]);
    }

    #[test]
    fn timers_give_back_the_value_of_their_signal() {
        let text = b"ID: 1\nsignal: 60/000055d0c0ffee00\nnotify: signal/pid.2634\nClockID: 0\n";
        assert_eq!(words(timers(text)), [0x55d0_c0ff_ee00]);
    }

    #[test]
    fn nonsense_holds_nothing() {
        for text in [&b"tfd: data:"[..], b"tfd: data: zz", b"signal: 6", b"signal: 6/", b""] {
            assert_eq!((epoll(text), timers(text)), (vec![], vec![]));
        }
    }
}
