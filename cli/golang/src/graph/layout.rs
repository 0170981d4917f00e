//! Where the runtime keeps what the object graph is read from: the fields of one minor release.
//!
//! It names fields and knows no numbers: these come from the tables.

use heapattach_census::Moment;

/// A number of one, two, four or eight bytes in a structure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Field {
    /// How far behind the beginning of the structure.
    pub at: u64,
    /// Its bytes.
    pub size: u64,
}

impl Field {
    /// Its value in the structure that begins there.
    pub fn read(self, moment: &Moment<'_>, structure: u64) -> Option<u64> {
        let at = structure.checked_add(self.at)?;
        // The word that it lies in is always mapped.
        let word = moment.word(at & !7)?;
        let shifted = word >> ((at & 7) * 8);
        match self.size {
            1 | 2 | 4 if (at & 7) + self.size <= 8 => Some(shifted & ((1 << (self.size * 8)) - 1)),
            8 if at & 7 == 0 => Some(word),
            _ => None,
        }
    }

    /// How far behind the beginning it lies, where it is a structure or an array itself.
    pub fn place(self, structure: u64) -> u64 {
        structure.wrapping_add(self.at)
    }
}

/// What the tables lack.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the layout of {0} in go1.{1} is not known")]
pub struct Missing(pub String, pub u32);

macro_rules! fields {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $of:literal,)* } optional { $($maybe:ident: $may:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default)]
        pub struct $name {
            $(#[doc = $of] pub $field: Field,)*
            $(#[doc = $may] pub $maybe: Option<Field>,)*
        }

        impl $name {
            pub(crate) fn of(minor: u32, find: &dyn Fn(&str) -> Option<Field>) -> Result<Self, Missing> {
                Ok(Self {
                    $($field: find($of).ok_or_else(|| Missing($of.to_owned(), minor))?,)*
                    $($maybe: find($may),)*
                })
            }
        }
    };
}

pub(crate) use fields;

fields! {
    /// `runtime.mspan`, and what leads to it.
    SpanFields {
        allspans: "runtime.mheap.allspans",
        arenas: "runtime.mheap.arenas",
        start: "runtime.mspan.startAddr",
        pages: "runtime.mspan.npages",
        free_index: "runtime.mspan.freeindex",
        count: "runtime.mspan.nelems",
        alloc_bits: "runtime.mspan.allocBits",
        alloc_count: "runtime.mspan.allocCount",
        class: "runtime.mspan.spanclass",
        state: "runtime.mspan.state",
        size: "runtime.mspan.elemsize",
        specials: "runtime.mspan.specials",
        heap_arena_spans: "runtime.heapArena.spans",
    } optional {
        large_type: "runtime.mspan.largeType",
        bitmap: "runtime.heapArena.bitmap",
        no_more_pointers: "runtime.heapArena.noMorePtrs",
        inline_marks: "runtime.heapArena.pageUseSpanInlineMarkBits",
    }
}

fields! {
    /// `runtime.special` and its kinds.
    SpecialFields {
        next: "runtime.special.next",
        offset: "runtime.special.offset",
        kind: "runtime.special.kind",
        finalizer: "runtime.specialfinalizer.fn",
        bucket: "runtime.specialprofile.b",
        finalizer_arg: "runtime.finalizer.arg",
    } optional {
        weak_handle: "runtime.specialWeakHandle.handle",
        cleanup: "runtime.specialCleanup.fn",
        cleanup_fn: "runtime.specialCleanup.cleanup.fn",
        cleanup_arg: "runtime.specialCleanup.cleanup.arg",
        queue_count: "runtime.finblock.cnt",
        queue_items: "runtime.finblock.fin",
        queue_next: "runtime.finblock.alllink",
        cleanup_count: "runtime.cleanupBlockHeader.n",
        cleanup_items: "runtime.cleanupBlock.cleanups",
        cleanup_next: "runtime.cleanupBlockHeader.alllink",
        cleanup_list: "runtime.cleanupQueue.all",
    }
}

fields! {
    /// `runtime.sudog`: a note that a goroutine waits on a channel.
    WaitingFields {
        channel: "runtime.sudog.c",
        next: "runtime.sudog.waitlink",
    } optional {}
}

fields! {
    /// `runtime.moduledata`.
    ModuleFields {
        text: "runtime.moduledata.text",
        etext: "runtime.moduledata.etext",
        data: "runtime.moduledata.data",
        edata: "runtime.moduledata.edata",
        bss: "runtime.moduledata.bss",
        ebss: "runtime.moduledata.ebss",
        types: "runtime.moduledata.types",
        etypes: "runtime.moduledata.etypes",
        end: "runtime.moduledata.end",
        next: "runtime.moduledata.next",
        data_mask_bits: "runtime.moduledata.gcdatamask.n",
        data_mask: "runtime.moduledata.gcdatamask.bytedata",
        bss_mask_bits: "runtime.moduledata.gcbssmask.n",
        bss_mask: "runtime.moduledata.gcbssmask.bytedata",
    } optional {}
}

fields! {
    /// `runtime.g`, and the `runtime.m` that it runs on.
    GoroutineFields {
        low: "runtime.g.stack.lo",
        high: "runtime.g.stack.hi",
        sp: "runtime.g.sched.sp",
        pc: "runtime.g.sched.pc",
        bp: "runtime.g.sched.bp",
        context: "runtime.g.sched.ctxt",
        syscall_sp: "runtime.g.syscallsp",
        syscall_pc: "runtime.g.syscallpc",
        status: "runtime.g.atomicstatus",
        id: "runtime.g.goid",
        wait_reason: "runtime.g.waitreason",
        wait_since: "runtime.g.waitsince",
        waiting: "runtime.g.waiting",
        go_pc: "runtime.g.gopc",
        start_pc: "runtime.g.startpc",
        machine: "runtime.g.m",
        deferred: "runtime.g._defer",
        panicking: "runtime.g._panic",
        thread: "runtime.m.procid",
        system: "runtime.m.g0",
    } optional {}
}

impl WaitingFields {
    /// Since go1.26 the pointer is hidden from the garbage collector at times; the same number follows it.
    fn unhidden(self) -> Self {
        let Field { at, size } = self.channel;
        let channel = if size == 16 { Field { at: at + 8, size: 8 } } else { self.channel };
        Self { channel, ..self }
    }
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// The 22 of go1.22.
    pub minor: u32,
    /// Spans.
    pub span: SpanFields,
    /// Specials.
    pub special: SpecialFields,
    /// Modules.
    pub module: ModuleFields,
    /// Goroutines.
    pub goroutine: GoroutineFields,
    /// What they wait on.
    pub waiting: WaitingFields,
}

impl Layout {
    /// By a table that answers for `runtime.mspan.elemsize`.
    ///
    /// # Errors
    /// When a field is not in it.
    pub fn of(minor: u32, find: &dyn Fn(&str) -> Option<Field>) -> Result<Self, Missing> {
        // It was renamed in go1.25.
        let renamed = |name: &str| find(&name.replace("finblock", "finBlock"));
        let find = &|name: &str| find(name).or_else(|| renamed(name));
        Ok(Self {
            minor,
            span: SpanFields::of(minor, find)?,
            special: SpecialFields::of(minor, find)?,
            module: ModuleFields::of(minor, find)?,
            goroutine: GoroutineFields::of(minor, find)?,
            waiting: WaitingFields::of(minor, find)?.unhidden(),
        })
    }
}

/// Where the variables of the runtime are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Variables {
    /// `runtime.mheap_`.
    pub mheap: u64,
    /// `runtime.allgs`.
    pub allgs: u64,
    /// The first module's data.
    pub module: u64,
    /// `runtime.allfin`: finalizers that wait.
    pub allfin: Option<u64>,
    /// The list of cleanups that wait, in `runtime.gcCleanups`; since go1.25.
    pub cleanups: Option<u64>,
    /// `runtime.MemProfileRate`: mean bytes between samples.
    pub profile_rate: Option<u64>,
}

#[cfg(test)]
mod tests {
    use heapattach_census::synthetic::Synthetic;

    use super::*;

    #[test]
    fn numbers_of_all_sizes_are_read_out_of_their_words() {
        let mut memory = Synthetic::default();
        memory.map(0x1000..0x2000);
        memory.write(0x1008, 0x8877_6655_4433_2211);
        let moment = memory.moment();
        let read = |at, size| Field { at, size }.read(&moment, 0x1000);
        assert_eq!((read(8, 8), read(8, 4)), (Some(0x8877_6655_4433_2211), Some(0x4433_2211)));
        assert_eq!((read(14, 2), read(15, 1)), (Some(0x8877), Some(0x88)));
        assert_eq!((read(14, 4), read(9, 8), read(0x1000, 8)), (None, None, None));
    }

    #[test]
    fn a_field_that_no_table_has_is_named() {
        let missing = Layout::of(31, &|_| None).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "the layout of runtime.mheap.allspans in go1.31 is not known"
        );
    }
}
