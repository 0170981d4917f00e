//! Lists that a thread has taken out of a page or heap, and has not put into another yet.
//!
//! Blocks that other threads freed are taken all at once, by an exchange; until they are in a list of free ones
//! they look as if they were in use. The head of such a list is in a register of the thread then, or, while a
//! function is called, on its stack.

use std::ops::Range;

use crate::{Moment, Thread};

use super::page::Page;

/// Words of a stack that are looked at: those of the library's functions, and of what these call.
const STACK: usize = 64;

/// Registers that a function of the library keeps on the stack before the address that it returns to.
const KEPT: usize = 6;

/// Threads that may have such a list: a register or a word of the library's on the stack has a block in use of a
/// page of its own, which leads to another such one. `pages` ascend.
pub fn taken(moment: &Moment<'_>, pages: &[Page], delayed: &[u64]) -> u64 {
    let named = |path: &str| path.rsplit('/').next().is_some_and(|name| name.contains("mimalloc"));
    let library = moment.images().iter().find(|image| named(&image.path));
    let library = library.map(|image| &image.range);
    let has = |thread: &&Thread| {
        let mut words = words(moment, library, thread).into_iter();
        words.any(|at| is_list(moment, pages, delayed, thread.pointer, at))
    };
    moment.threads().iter().filter(has).count() as u64
}

/// What a thread's calls of the library can have: nothing where it is in none.
fn words(moment: &Moment<'_>, library: Option<&Range<u64>>, thread: &Thread) -> Vec<u64> {
    let mut words = thread.registers.clone();
    let Some(library) = library else { return words };
    // Near its end a stack has fewer.
    let stack = [STACK, KEPT].into_iter().find_map(|count| moment.words(thread.stack & !7, count));
    let stack = stack.unwrap_or_default();
    match stack.iter().rposition(|word| library.contains(word)) {
        Some(last) => words.extend(stack.iter().take(last + KEPT)),
        None if library.contains(&thread.code) => words.extend(stack.iter().take(KEPT)),
        None => words.clear(),
    }
    words
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
    use crate::{RegionKind, synthetic::Synthetic};

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

    #[test]
    fn a_list_on_the_stack_of_one_that_called_something_else_is_seen() {
        let (mut memory, library) = (Synthetic::default(), 0x50_0000..0x60_0000);
        memory.map(0x10_0000..0x11_0000);
        memory.region(library.clone(), RegionKind::File, "/lib/libmimalloc.so.2");
        memory.write(0x10_0018, 0x1234);
        let mut words = |code, returns| {
            memory.write(0x10_0020, returns);
            let thread = Thread { code, stack: 0x10_0000, registers: vec![7], ..Thread::default() };
            words(&memory.moment(), Some(&library), &thread)
        };
        assert!(words(0x7000, 0x50_0010).contains(&0x1234));
        assert!(words(0x50_0020, 0).contains(&0x1234));
        assert!(words(0x7000, 0).is_empty());
    }
}
