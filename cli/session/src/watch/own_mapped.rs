//! How much of what is mapped the program mapped itself, while a session lasts: by the module that made the
//! call, since names of functions come later. What an allocator maps is told by its blocks.

use std::ops::Range;

use heapattach_ledger::{FrameReport, hidden::Hidden};
use heapattach_process::{addr::RemoteAddr, stack::Stack};
use heapattach_profile::Row;
use heapattach_symbols::Known;

/// The rows that map something, and whose it is.
#[derive(Debug, Default)]
pub struct OwnMapped {
    hidden: Hidden,
    /// Code of Go in a program that has a C library, too.
    go: Option<Range<u64>>,
    /// Rows that were looked at.
    seen: usize,
    /// Those that the program maps itself, by number.
    rows: Vec<usize>,
    /// Modules when that was last told.
    modules: usize,
    most: f64,
}

impl OwnMapped {
    /// What Go's runtime maps is no more the program's own than what an allocator does: there it calls C code that
    /// calls the kernel. Before C code that the program calls itself, cgo puts a function of C.
    pub fn know_go(&mut self, code: Option<Range<u64>>) {
        self.go = code;
    }

    /// Looks at the rows that are new. A stack maps from its first call on, or never.
    pub fn look<'s>(
        &mut self,
        rows: &[Row],
        modules: &[Known],
        stack: impl Fn(&Row) -> Option<&'s Stack>,
    ) {
        if self.modules != modules.len() {
            // What came of a module that was not known then was taken for the program's.
            (self.modules, self.seen) = (modules.len(), 0);
            self.rows.clear();
        }
        for (number, row) in rows.iter().enumerate().skip(self.seen) {
            if row.pages.mapped == 0 {
                continue;
            }
            let frames = stack(row).map_or(&[][..], |stack| &stack.frames);
            let is_hidden = frames.first().is_some_and(|at| self.is_hidden(*at, modules));
            let go = |at: &RemoteAddr| self.go.as_ref().is_some_and(|go| go.contains(&at.get()));
            if !is_hidden && !frames.get(1).is_some_and(go) {
                self.rows.push(number);
            }
        }
        self.seen = rows.len();
    }

    /// Bytes of pages that the program mapped, and still.
    pub fn live(&self, rows: &[Row]) -> u64 {
        let own = self.rows.iter().filter_map(|&number| rows.get(number));
        own.fold(0, |sum, row| sum.saturating_add(row.pages.live))
    }

    /// Bytes of blocks and of these pages at once, at most, at any look so far.
    pub fn most(&mut self, blocks: f64, pages: u64) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let now = if pages == 0 { 0.0 } else { blocks + pages as f64 };
        self.most = self.most.max(now);
        self.most
    }

    /// Whether an address is in an allocator's code, or that of the C library.
    fn is_hidden(&self, at: RemoteAddr, modules: &[Known]) -> bool {
        let call = at.get().saturating_sub(1);
        let has = |known: &&Known| known.pieces.iter().any(|p| (p.start..p.end).contains(&call));
        modules.iter().find(has).is_some_and(|known| {
            let frame = FrameReport { module: known.path.clone(), ..FrameReport::default() };
            self.hidden.hides(&frame)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_process::{event::StackId, stack::StackEnd};
    use heapattach_symbols::Piece;

    #[test]
    fn what_an_allocator_maps_is_not_the_programs() {
        let known = |path: &str, start| Known {
            path: path.to_owned(),
            pieces: vec![Piece { start, end: start + 0x1000, file_offset: 0 }],
            ..Known::default()
        };
        let modules = [known("/opt/server", 0x1000), known("/usr/lib/libjemalloc.so.2", 0x8000)];
        let stack = |at| Stack {
            frames: vec![RemoteAddr::new(at)],
            end: StackEnd::Outermost,
            native: None,
        };
        let stacks = [stack(0x1100), stack(0x8100), stack(0x1200)];
        let mut rows: Vec<Row> = (0..3).map(|number| Row::new(StackId(number), 0)).collect();
        for row in &mut rows[..2] {
            row.pages.add(4096, true);
        }
        let mut own = OwnMapped::default();
        let look = |own: &mut OwnMapped, rows: &[Row], modules: &[Known]| {
            own.look(rows, modules, |row| stacks.get(row.stack.0 as usize));
            own.live(rows)
        };
        assert_eq!(look(&mut own, &rows, &[]), 8192, "nothing is known of modules yet");
        assert_eq!(look(&mut own, &rows, &modules), 4096);
        assert_eq!((own.most(100.0, 4096), own.most(50.0, 0)), (4196.0, 4196.0));
    }

    #[test]
    fn what_gos_runtime_maps_is_not_the_programs_and_what_its_c_code_maps_is() {
        let stack = |frames: &[u64]| Stack {
            frames: frames.iter().copied().map(RemoteAddr::new).collect(),
            end: StackEnd::Outermost,
            native: None,
        };
        // The runtime's call of C, and one of the program's: its function, cgo's, then Go.
        let stacks = [stack(&[0x9000, 0x1200]), stack(&[0x9100, 0x9200, 0x1300])];
        let mut rows: Vec<Row> = (0..2).map(|number| Row::new(StackId(number), 0)).collect();
        rows[0].pages.add(4096, true);
        rows[1].pages.add(8192, true);
        let live = |go| {
            let mut own = OwnMapped::default();
            own.know_go(go);
            own.look(&rows, &[], |row| stacks.get(row.stack.0 as usize));
            own.live(&rows)
        };
        assert_eq!((live(None), live(Some(0x1000..0x2000))), (12_288, 8192));
    }
}
