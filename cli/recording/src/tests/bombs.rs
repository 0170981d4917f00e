//! Small files that would become large in memory, or take long to read.

use std::{fs, io::Write, path::PathBuf};

use crate::Recording;
use crate::format::{
    block::{self, Content, Effort},
    coder::MOST_IN_A_BYTE,
    varint::Out,
};
use heapattach_test_folder::Folder;

/// So much may reading such a file take at its peak.
const MOST_KIB: u64 = 3 << 20;

/// A file with an honest heading and then `count` times this content.
fn file(folder: &Folder, content: Content, text: &[u8], count: usize) -> PathBuf {
    file_of(folder, content, text, count, Effort::Usual)
}

fn file_of(
    folder: &Folder,
    content: Content,
    text: &[u8],
    count: usize,
    effort: Effort,
) -> PathBuf {
    let path = folder.0.join("bomb");
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(&block::title()).unwrap();
    file.write_all(&block::encode(Content::About, b"{}", Effort::Usual).unwrap()).unwrap();
    let bomb = block::encode(content, text, effort).unwrap();
    (0..count).for_each(|_| file.write_all(&bomb).unwrap());
    path
}

/// Memory that this process has had at its peak since it was last asked to forget.
fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_small_file_does_not_become_a_large_one_in_memory() {
    let folder = Folder::new("bomb");
    let names = format!("{{\"functions\":[{{\"name\":\"{}\"}}]}}", "x".repeat(4 << 20));
    let empty = format!("[{}{{}}]", "{},".repeat(5 << 20));
    let bombs = [(Content::Names, &names, 300), (Content::Moments, &empty, 1)];
    for (content, text, count) in bombs {
        let path = file(&folder, content, text.as_bytes(), count);
        assert!(fs::metadata(&path).unwrap().len() < 10 << 20);
        fs::write("/proc/self/clear_refs", "5").unwrap();
        let recording = Recording::open(&path).unwrap();
        let (peak, damage) = (peak_kib(), recording.damage().unwrap_or_default().to_owned());
        assert!(damage.contains("more memory than"), "{content:?}: {damage}");
        assert!(peak < MOST_KIB, "{content:?}: {peak} KiB");
    }
}

/// As many changes as so many bytes of a model's text, all of them `fill`, may stand for.
fn changes(bytes: usize, fill: u8) -> Vec<u8> {
    let mut out = Out::default();
    [0, bytes as u64 * MOST_IN_A_BYTE, 0].into_iter().for_each(|number| out.number(number));
    out.0.resize(out.0.len() + bytes, fill);
    out.0
}

/// Counted, not timed: a busy machine makes no more of them.
#[test]
fn a_small_file_does_not_tell_of_many_changes() {
    let folder = Folder::new("changes-bomb");
    for (effort, is_honest) in [(Effort::None, true), (Effort::Usual, false)] {
        // Of some bytes the model makes times that pass, or nonsense; of others changes.
        let mut most = 0;
        for fill in 0..=u8::MAX {
            let path = file_of(&folder, Content::Changes, &changes(1 << 9, fill), 2, effort);
            let bytes = fs::metadata(&path).unwrap().len();
            let mut told = 0;
            let recording = Recording::open(&path).unwrap();
            recording.changes_in(0, 0..u64::MAX, |_, _| true, |some| told += some.len() as u64);
            assert!(told <= bytes * MOST_IN_A_BYTE, "{fill}: {bytes} bytes tell of {told} changes");
            most = most.max(told);
        }
        println!("{effort:?}: at most {most} changes");
        assert_eq!(most > 0, is_honest, "{effort:?}");
    }
}
