//! Lists that a thread has taken out of a page or heap, and has not put into another yet.
//!
//! Blocks that other threads freed are taken all at once, by an exchange; until they are in a list of free ones
//! they look as if they were in use. The head of such a list is in a register of the thread then.

use crate::{Moment, Thread};

use super::page::Page;

/// Threads that may have such a list: a register has a block in use of a page of its own, which leads to
/// another such one. `pages` ascend.
pub fn taken(moment: &Moment<'_>, pages: &[Page], delayed: &[u64]) -> u64 {
    let named = |path: &str| path.rsplit('/').next().is_some_and(|name| name.contains("mimalloc"));
    let library = moment.images().iter().find(|image| named(&image.path));
    let is_within =
        |thread: &&Thread| library.is_none_or(|library| library.range.contains(&thread.code));
    let has = |thread: &&Thread| {
        thread.registers.iter().any(|at| is_list(moment, pages, delayed, thread.pointer, *at))
    };
    moment.threads().iter().filter(is_within).filter(has).count() as u64
}

fn is_list(moment: &Moment<'_>, pages: &[Page], delayed: &[u64], owner: u64, at: u64) -> bool {
    let is_used = |at: u64| {
        let page = pages.partition_point(|page| page.span.start <= at).checked_sub(1);
        let page = page.and_then(|page| pages.get(page)).filter(|page| page.owner == owner);
        let index = page.and_then(|page| page.index(at));
        page.zip(index).is_some_and(|(page, index)| {
            page.free(moment, delayed).is_free.get(index).is_some_and(|is_free| !is_free)
        })
    };
    at != 0 && is_used(at) && moment.word(at).is_some_and(is_used)
}

#[cfg(test)]
mod tests {
    use crate::synthetic::Synthetic;

    use super::{super::layout::MAPS, *};

    #[test]
    fn a_list_in_a_register_is_seen() {
        let mut memory = Synthetic::default();
        memory.map(0x10_0000..0x20_0000);
        let at = 0x10_0000;
        memory.write(at + 16, 10 | 10 << 16 | 10 << 32);
        memory.write(at + 40, 48);
        memory.write(at + 48, 0x18_0000);
        memory.write(0x18_0030, 0x18_0060);
        let count = |memory: &mut Synthetic, register| {
            let registers = vec![7, register];
            memory.threads = vec![Thread { pointer: 9, registers, ..Thread::default() }];
            let moment = memory.moment();
            let page = Page::read(&moment, at, &MAPS[0].page, 0x18_0000..0x19_0000, 9).unwrap();
            taken(&moment, &[page], &[])
        };
        let registers = [0x18_0030, 0x18_0060, 0x18_0031];
        assert_eq!(registers.map(|register| count(&mut memory, register)), [1, 0, 0]);
    }
}
