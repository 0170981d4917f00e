//! Mapped memory beside blocks: the same view of the pages that the program mapped itself, below, where no
//! memory was chosen. What allocators map, and stacks of threads, would stand in front of them.

use heapattach_ledger::{Ledger, Memory};
use heapattach_verdict::subject::{Ask, Subject};

/// The pages of a subject.
#[derive(Debug)]
pub struct Mapped {
    now: Ledger,
    base: Option<Ledger>,
    ask: Ask,
}

impl Mapped {
    /// `None` if they are not to be told: the memory was chosen, or the program mapped none itself.
    pub fn beside(subject: &Subject<'_>, ask: &Ask) -> Option<Self> {
        if ask.memory.is_some() || subject.sides().all(|(_, ledger)| ledger.own_mapped() == [0, 0])
        {
            return None;
        }
        let pages = |ledger: &Ledger| ledger.clone().of(Memory::Own);
        let ask = Ask { memory: Some(Memory::Own), ..*ask };
        Some(Self { now: pages(subject.now), base: subject.base.map(pages), ask })
    }

    /// A view of them.
    pub fn view<V>(&self, new: impl Fn(&Subject<'_>, &Ask) -> V) -> V {
        new(&Subject { now: &self.now, base: self.base.as_ref() }, &self.ask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Page, Sites};
    use heapattach_ledger::sample;

    /// What `main` maps itself in the sample.
    fn mapping() -> Ledger {
        let mut ledger = sample::ledger();
        ledger.stacks.edit(1, |stack| {
            stack.locations.remove(0);
            stack.cause = 0;
        });
        ledger
    }

    #[test]
    fn what_the_program_maps_is_told_below_its_blocks() {
        let (ledger, base) = (mapping(), sample::ledger());
        let told = |subject: &Subject<'_>| {
            let mut page = Page::new(None, false);
            crate::write_sites(subject, &Ask::default(), &mut page);
            page.finish()
        };
        let expected = "
ALL       still mapped by the program itself: 512.0 KiB in 128 pages

still mapped   part               mapped  unmapped  where
   512.0 KiB  100 %  ██████████  1.0 MiB      50 %  main (main.c:7)
";
        let text = told(&Subject::of(&ledger));
        assert!(text.ends_with(expected), "{text}");
        let difference = told(&Subject { now: &ledger, base: Some(&base) });
        let words =
            "still mapped by the program itself: 512.0 KiB in 128 pages; before: 0 B in 0 pages";
        assert!(difference.contains(words), "{difference}");
        assert!(!difference.contains("[mapped by libc.so.6]"), "{difference}");
    }

    #[test]
    fn it_is_not_told_where_it_was_not_asked_for_or_is_an_allocators() {
        let (ledger, plain) = (mapping(), sample::ledger());
        assert!(Mapped::beside(&Subject::of(&plain), &Ask::default()).is_none());
        for memory in Memory::ALL {
            let ask = Ask { memory: Some(memory), ..Ask::default() };
            assert!(Mapped::beside(&Subject::of(&ledger), &ask).is_none());
        }
        let mapped = Mapped::beside(&Subject::of(&ledger), &Ask::default()).unwrap();
        assert_eq!(mapped.view(Sites::new).sites.len(), 1);
    }
}
