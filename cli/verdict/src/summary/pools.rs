//! Allocators of libraries that take memory from malloc or the kernel by the chunk, and whose blocks are freed together: by the
//! end of a request, of a transaction, of a list. No function is called for each of these blocks, so they are
//! not counted; what the chunks hold is told by the name of the allocator.
//!
//! Pure: an allocator is known by its functions in the stacks, between malloc and the code that wanted memory. In a
//! stripped library only exported functions have names: there the cause may be a function without a name, that the
//! allocator's own function called.

use heapattach_ledger::{Call, Ledger, Mapper, Metric};
use heapattach_profile::Sum;
use heapattach_text::glob;

use crate::figure::bytes;

/// One of them.
struct Pool {
    /// What it is called.
    name: &'static str,
    /// Its functions that take memory.
    functions: &'static [&'static str],
    /// Functions that these call for a single block, which is freed as one, and so counted rightly.
    single: &'static [&'static str],
    /// How blocks are freed.
    freed: &'static str,
    /// What shows each of them; empty if nothing does.
    more: &'static str,
}

const POOLS: [Pool; 6] = [
    // Until 2.74: `g_list_free` frees a whole list by one call, whose links are in the blocks. Since 2.76 a
    // slice is a block of g_malloc.
    Pool {
        name: "GLib's slices",
        functions: &["g_slice_alloc*", "g_slice_copy"],
        single: &["g_malloc*", "g_try_malloc*"],
        freed: "one by one or by the list",
        more: "G_SLICE=always-malloc heapattach run -- CMD",
    },
    // Cleared pools keep their chunks for the next ones.
    Pool {
        name: "APR's pools",
        functions: &["apr_palloc*", "apr_pcalloc*", "apr_pool_create*", "apr_allocator_alloc"],
        single: &[],
        freed: "by the pool",
        more: "",
    },
    // Without a pool each of talloc's blocks is malloc's, and freeing a tree calls free for each.
    Pool {
        name: "talloc's pools",
        functions: &["talloc_pool", "_talloc_pooled_object"],
        single: &[],
        freed: "by the pool",
        more: "",
    },
    Pool {
        name: "nginx's pools",
        functions: &["ngx_palloc*", "ngx_pnalloc", "ngx_pcalloc", "ngx_create_pool"],
        single: &["ngx_palloc_large"],
        freed: "by the pool",
        more: "",
    },
    Pool {
        name: "PostgreSQL's memory contexts",
        functions: &["AllocSetAlloc*", "AllocSetContextCreate*", "GenerationAlloc*", "SlabAlloc*"],
        single: &["AllocSetAllocLarge"],
        freed: "by the context",
        more: "",
    },
    Pool {
        name: "obstacks",
        functions: &["_obstack_newchunk", "_obstack_begin*", "__obstack_newchunk"],
        single: &[],
        freed: "by the stack of objects",
        more: "",
    },
];

/// What maps memory for blocks of its own.
const MALLOC: [&str; 8] = [
    "malloc",
    "calloc",
    "realloc",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "je_*",
    "operator new*",
];

/// What of the memory in use is chunks of such allocators: a line for each.
pub fn told(ledger: &Ledger) -> Vec<String> {
    let of_stack: Vec<Option<Found>> =
        (0..).take(ledger.stacks.count()).map(|stack| pool_of(ledger, stack)).collect();
    let mut sums: [Sum; POOLS.len()] = Default::default();
    for row in &ledger.rows {
        let Some(Some(found)) = of_stack.get(row.stack as usize) else { continue };
        let sum = &mut sums[found.pool];
        sum.merge(&row.sum(Metric::Live));
        if found.maps && row.mapped_live > 0 {
            sum.merge(&Sum::exact(row.mapped_live, 1));
        }
    }
    let held = POOLS.iter().zip(&sums).filter(|(_, sum)| sum.records() > 0);
    let line = |(pool, sum): (&Pool, &Sum)| {
        let more = match pool.more {
            "" => String::new(),
            more => format!("; to see them: {more}"),
        };
        format!(
            "{}: {} of what is in use are chunks of theirs, whose blocks are not seen one by one: they \
             are freed {}{more}",
            pool.name,
            bytes(sum.measure().bytes),
            pool.freed
        )
    };
    held.map(line).collect()
}

/// An allocator that a stack leads through.
#[derive(Clone, Copy)]
struct Found {
    /// Its place in the list.
    pool: usize,
    /// Whether pages that were mapped there are its chunks: not where malloc mapped them, for a chunk that is
    /// counted as a block.
    maps: bool,
}

/// Through which of them a stack leads to malloc or mmap, before the code that wanted memory.
fn pool_of(ledger: &Ledger, stack: u32) -> Option<Found> {
    let calls = inner(ledger, stack);
    let is_any = |rules: &[&str], name: &str| rules.iter().any(|rule| glob::matches(rule, name));
    let names = || calls.iter().map(|call| call.function.name.as_str());
    let of = |pool: &Pool| {
        let at = names().position(|name| is_any(pool.functions, name))?;
        let is_single = names().take(at + 1).any(|name| is_any(pool.single, name));
        (!is_single).then_some(at)
    };
    let (pool, at) = POOLS.iter().enumerate().find_map(|(n, pool)| Some((n, of(pool)?)))?;
    let is_its = match ledger.mapper(stack) {
        Mapper::Program => true,
        Mapper::Module(module) => calls[at].module.path.rsplit('/').next() == Some(&module),
        Mapper::Thread => false,
    };
    let maps = is_its && !names().take(at).any(|name| is_any(&MALLOC, name));
    Some(Found { pool, maps })
}

/// The calls between malloc and the cause of a stack. If that has no name, it may be an allocator's own: the
/// calls up to the first one that has a name, in the same module.
fn inner(ledger: &Ledger, stack: u32) -> Vec<Call<'_>> {
    let cause = ledger.stacks.get(stack).map_or(0, |stack| stack.cause as usize);
    let mut calls = ledger.calls(stack);
    let mut inner: Vec<Call<'_>> = calls.by_ref().take(cause).collect();
    let Some(of_cause) = calls.next() else { return inner };
    let module = of_cause.location.module;
    let mut next = Some(of_cause);
    while let Some(call) = next.filter(|call| call.location.module == module) {
        let is_named = call.function.is_named;
        // A cause with a name is the program's.
        if inner.len() > cause || !is_named {
            inner.push(call);
        }
        if is_named {
            break;
        }
        next = calls.next();
    }
    inner
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use heapattach_ledger::{EndReason, Function, Line, Location, Row, Stacks, sample};

    /// A stack of these functions, the innermost first, whose last one is the cause; its one row has this
    /// much in use.
    fn ledger(names: &[&str], live: u64) -> Ledger {
        let number = |at: usize| u32::try_from(at).unwrap();
        let mut ledger = sample::ledger();
        ledger.functions = names
            .iter()
            .map(|name| Function {
                name: (*name).to_owned(),
                is_named: !name.contains('+'),
                ..Function::default()
            })
            .collect();
        let location = |at: usize| Location {
            lines: vec![Line { function: number(at), line: None }],
            ..Location::default()
        };
        ledger.locations = (0..names.len()).map(location).collect();
        ledger.stacks = Stacks::of(Arc::new((0..names.len()).map(number).collect()));
        ledger.stacks.push_part(0, names.len(), EndReason::Outermost, number(names.len() - 1));
        let mut row = Row::default();
        row.set(Metric::Live, &Sum::exact(live, 1));
        ledger.rows = vec![row];
        ledger
    }

    #[test]
    fn what_chunks_hold_is_told_by_the_name_of_the_allocator() {
        let told = told(&ledger(&["malloc", "allocator_alloc", "apr_palloc", "handle"], 81_920));
        assert_eq!(
            told,
            [
                "APR's pools: 80.0 KiB of what is in use are chunks of theirs, whose blocks are not seen \
              one by one: they are freed by the pool"
            ]
        );
    }

    #[test]
    fn a_single_block_is_counted_as_one() {
        assert!(told(&ledger(&["malloc", "g_malloc", "g_slice_alloc", "handle"], 1)).is_empty());
        let slab = told(&ledger(&["posix_memalign", "add_slab", "g_slice_alloc", "handle"], 4096));
        assert!(slab[0].ends_with("G_SLICE=always-malloc heapattach run -- CMD"), "{slab:?}");
        assert!(told(&ledger(&["malloc", "ruby_xmalloc", "handle"], 1)).is_empty());
    }

    #[test]
    fn a_function_without_a_name_is_the_allocators_that_called_it() {
        let mut slab = ledger(&["posix_memalign", "lib.so+1", "lib.so+2", "g_slice_alloc", "f"], 7);
        slab.stacks.edit(0, |stack| stack.cause = 1);
        assert!(told(&slab)[0].starts_with("GLib's slices: 7 B "), "{:?}", told(&slab));
        slab.functions[1].is_named = true;
        assert!(told(&slab).is_empty(), "the program's own");
        slab.functions[1].is_named = false;
        slab.modules.push(slab.modules[0].clone());
        slab.locations[3].module = 1;
        assert!(told(&slab).is_empty(), "another module's");
    }

    #[test]
    fn pages_that_an_allocator_maps_are_its_chunks_and_those_that_malloc_maps_are_not() {
        let mapped = |names: &[&str]| {
            let mut ledger = ledger(names, 0);
            ledger.rows[0].set(Metric::Live, &Sum::default());
            (ledger.rows[0].mapped, ledger.rows[0].mapped_live) = (1 << 20, 1 << 19);
            told(&ledger)
        };
        let told = mapped(&["mmap", "allocator_alloc", "apr_palloc", "handle"]);
        assert!(told[0].starts_with("APR's pools: 512.0 KiB "), "{told:?}");
        let of_malloc = ["mmap", "sysmalloc", "malloc", "allocator_alloc", "apr_palloc", "handle"];
        assert!(mapped(&of_malloc).is_empty());
    }

    #[test]
    fn what_calls_the_cause_is_no_allocator_of_it() {
        assert!(told(&ledger(&["malloc", "apr_palloc"], 1)).is_empty(), "it is the cause itself");
    }
}
