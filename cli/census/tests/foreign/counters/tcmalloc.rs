//! tcmalloc: what its properties are.

use std::process::Command;

use heapattach_census::counters::AllocatorKind;

use crate::program::{build, library};

use super::told::{Told, assert_equal};

#[test]
fn properties_are_what_is_read() {
    for name in ["libtcmalloc_minimal.so.4", "libtcmalloc.so.4"] {
        let Some(library) = library(name, "google-perftools") else { return };
        for (setting, value) in [("TCMALLOC_RELEASE_RATE", "1"), ("TCMALLOC_RELEASE_RATE", "10")] {
            let Some(program) = build("cc", "own_numbers.c", &[]) else { return };
            let mut command = Command::new(program);
            command.args(["4", "60000"]).env("LD_PRELOAD", &library).env(setting, value);
            let mut told = Told::start(&mut command);
            let own = told.read(AllocatorKind::Tcmalloc);
            // The rest of what is printed is text; one property is a setting.
            told.lines
                .retain(|name, _| name.starts_with("tcmalloc.") || name.starts_with("generic."));
            told.lines.remove("tcmalloc.max_total_thread_cache_bytes");
            let own =
                own.stats.iter().map(|(name, number)| ((*name).to_owned(), number.to_string()));
            assert_equal(&told.lines, &own.collect(), 14);
        }
    }
}
