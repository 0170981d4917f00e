//! Any bytes: a plan or a refusal, in bounded time, and never a panic.

use std::{fs, sync::LazyLock, time::Duration, time::Instant};

use proptest::prelude::*;

use super::{
    Family, Hooked, Role, analyse,
    model::{CODE, DATA, Model, branch},
};
use heapattach_process::addr::{Bias, ImageAddr, RemoteAddr};

/// Generous: these run without optimisation, beside other tests.
const DEADLINE: Duration = Duration::from_secs(5);

/// A real library: one this process runs on.
static LIBC: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.ends_with("/libc.so.6")).unwrap();
    fs::read(&line[line.find('/').unwrap()..]).unwrap()
});

/// Analyses, and uses every plan and bypass there is.
fn exercise(file: &[u8], addresses: &[u64]) {
    let hooked = |(i, &at): (usize, &u64)| Hooked {
        name: "f",
        address: ImageAddr::new(at),
        size: (i as u64 % 3) * 16,
        keeps_flags: i % 2 == 0,
        family: if i % 4 == 3 { Family::Map } else { Family::Heap },
    };
    let hooked: Vec<_> = addresses.iter().enumerate().map(hooked).collect();
    let start = Instant::now();
    for role in [Role::Library, Role::Executable] {
        let Ok(analysis) = analyse(file, &hooked, role) else { continue };
        let (bias, to) = (Bias::new(0x7f12_3456_7000), RemoteAddr::new(0x7f12_3000_0000));
        for plan in analysis.entries().iter().filter_map(|entry| entry.plan.as_ref().ok()) {
            let _ = plan.relocate(bias, to, |_| Some(to));
            let _ = plan.patch(bias, to);
            let _ = (plan.old(), plan.window_at(bias));
        }
        for bypass in analysis.bypasses(|_| true) {
            let _ = (bypass.rewrite(bias, to), bypass.field(bias));
        }
    }
    assert!(start.elapsed() < DEADLINE, "took {:?}", start.elapsed());
}

fn model() -> Vec<u8> {
    let code = [b"\x48\x89\xf8\x48\x89\xf2", &branch(b"\xe8", 0x206, 0x100)[..]].concat();
    Model::default()
        .data(&[0; 64])
        .slot(DATA, 0)
        .points(DATA + 8, CODE + 0x100)
        .exports(0x100, b"\x48\x89\xf8\x48\x89\xf2\x75\x10\xff\xe0\xc3")
        .exports(0x200, &code)
        .function(0x300, &branch(b"\xe9", 0x300, 0x200))
        .build()
}

/// Overwrites bytes, and now and then a whole word with an extreme.
fn mutate(file: &mut [u8], changes: &[(prop::sample::Index, u8, u8)]) {
    const EXTREMES: [u64; 4] = [u64::MAX, i64::MAX as u64, 0x8000_0000, 0xffff_fff0];
    for (place, value, how) in changes {
        let at = place.index(file.len());
        match file[at..].first_chunk_mut() {
            Some(word) if how % 4 == 0 => {
                *word = EXTREMES[usize::from(*value) % EXTREMES.len()].to_le_bytes();
            }
            _ => file[at] = *value,
        }
    }
}

fn changes(most: usize) -> impl Strategy<Value = Vec<(prop::sample::Index, u8, u8)>> {
    prop::collection::vec(any::<(prop::sample::Index, u8, u8)>(), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2000), at in any::<u64>()) {
        let header = &model()[..64];
        exercise(&bytes, &[at]);
        exercise(&[header, &bytes].concat(), &[at, CODE]);
    }

    #[test]
    fn random_code(code in prop::collection::vec(any::<u8>(), 1..600), at in 0u64..600) {
        let file = Model::default().exports(0, &code).function(at, &code).build();
        exercise(&file, &[CODE, CODE + at, CODE + 1]);
    }

    #[test]
    fn a_small_file_with_changed_headers_and_tables(changes in changes(12), at in any::<u64>()) {
        let mut file = model();
        // The gap between the headers and the code is unused.
        let (head, rest) = file.split_at_mut(0x1000);
        let half = changes.len() / 2;
        mutate(&mut head[..176], &changes[..half]);
        mutate(rest, &changes[half..]);
        exercise(&file, &[CODE + 0x100, CODE + 0x200, CODE + 0x300, at]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_real_library_with_changes_where_it_hurts(
        changes in changes(40),
        place in 0usize..4,
        at in 0u64..0x20_0000,
    ) {
        let mut file = LIBC.clone();
        let header = |at: usize| usize::try_from(
            u64::from_le_bytes(*file[at..].first_chunk().unwrap()),
        ).unwrap();
        let unwind = (0..14).map(|i| 64 + i * 56).find(|&at| file[at..at + 4] == *b"\x50\xe5\x74\x64");
        let unwind = unwind.map_or(0, |at| header(at + 8));
        let sections = header(40);
        let range = match place {
            0 => 0..1024,
            1 => unwind..unwind + 0x400,
            // Whatever follows the sorted table: the unwind entries, for their greater part.
            2 => unwind + 0x7000..unwind + 0x2_0000,
            _ => sections..file.len(),
        };
        let end = range.end.min(file.len());
        mutate(&mut file[range.start..end], &changes);
        exercise(&file, &[0x98930, 0x98ef0, 0x99130, 0x1019a0, at]);
    }
}
