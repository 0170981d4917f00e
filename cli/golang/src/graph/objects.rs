//! The whole graph of a moment: objects, what leads to them, their types, and who waits for ever.

use heapattach_census::Moment;

use super::{
    goroutine::Goroutine,
    heap::{Heap, HeapError, Object, Sum},
    layout::{Layout, Variables},
    leaks::Leaked,
    mark::Marks,
    pointers::Pointers,
    references::{References, Seed},
    roots::{Holder, Root, Roots},
    site::{SiteType, Stated},
    types::{Modules, Slot, Types},
    typing::{self, Known, Typing},
};

/// Why there is no graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// The heap cannot be told.
    #[error(transparent)]
    Heap(#[from] HeapError),
    /// The bitmaps of this release are not known.
    #[error("where the runtime keeps its pointer bitmaps is not known for go1.{0}")]
    Bitmaps(u32),
}

/// The graph.
pub struct Objects<'a, 'm> {
    /// The heap.
    pub heap: Heap,
    /// What leads to what.
    pub references: References,
    /// Goroutines.
    pub goroutines: Vec<Goroutine>,
    /// What holds objects from outside.
    pub roots: Roots,
    /// What is reached.
    pub marks: Marks,
    /// What objects are.
    pub typing: Typing,
    /// Goroutines that wait for ever.
    pub leaked: Leaked,
    /// The descriptors of types.
    pub types: &'a Types<'a, 'm>,
}

/// Variables whose types are known, those of functions too: where a pointer lies, and what it leads to.
pub type KnownVariables<'k> = &'k dyn Fn(u64) -> Option<Slot>;

/// Whether a variable of a function, or the runtime's own map of the frame, has a pointer in that word of a stack.
pub type IsPointer<'k> = &'k dyn Fn(u64) -> bool;

/// What the code of the program states.
#[derive(Clone, Copy)]
pub struct ByCode<'s> {
    /// What was allocated, by the stack and the size.
    pub allocated: &'s dyn Fn(&[u64], u64) -> Option<SiteType>,
    /// What variables, and closures, are that lie or begin there.
    pub set: &'s dyn Fn(&[u64]) -> Stated,
}

impl ByCode<'_> {
    /// It is not looked at.
    pub const NOTHING: Self = Self { allocated: &|_, _| None, set: &|_| Stated::default() };
}

/// The descriptors of a moment; the graph refers to them.
pub fn types<'a, 'm>(
    moment: &'a Moment<'m>,
    layout: &Layout,
    variables: &Variables,
) -> Types<'a, 'm> {
    Types::new(moment, Modules::read(moment, layout, variables))
}

impl<'a, 'm> Objects<'a, 'm> {
    /// Reads all of it, with these goroutines.
    ///
    /// # Errors
    /// When the heap cannot be told.
    pub fn read(
        moment: &'a Moment<'m>,
        types: &'a Types<'a, 'm>,
        (layout, variables): (&Layout, &Variables),
        goroutines: Vec<Goroutine>,
        (known, is_pointer): (KnownVariables<'_>, IsPointer<'_>),
        code: ByCode<'_>,
    ) -> Result<Self, GraphError> {
        let heap = Heap::read(moment, layout, variables)?;
        let pointers = Pointers::new(moment, types, layout, variables)
            .ok_or(GraphError::Bitmaps(layout.minor))?;
        let mut references = References::of(moment, &heap, &pointers, types);
        let mut roots =
            Roots::of(moment, layout, variables, &heap, types, &references, &goroutines);
        let in_interface = |at| Some(types.of_interface(moment.word(at)?)?.at);
        let [in_variables, on_stacks] = roots.know(known, is_pointer, &in_interface);
        // The runtime's list of goroutines leads to what each waits on: that is rather held by its stack.
        let own = goroutines.iter().filter_map(|one| Some(heap.find(one.at)?.0));
        let own: Vec<Object> = own.collect();
        let marks = Marks::of(&heap, &references, &roots.all, &own);
        let leaked = Leaked::of(moment, layout, &heap, &references, &goroutines, &roots.all);
        let seeds = &roots.seeds;
        let stated = || {
            let own = roots.sampled.iter().filter_map(|sampled| {
                let (size, stack) = sampled.size_and_stack(moment)?;
                Some((sampled.object, (code.allocated)(&stack, size)?))
            });
            own.collect()
        };
        let lead = |root: &Root| match root.holder {
            Holder::Variable(at) if root.is_start => Some((root.target, at)),
            Holder::Variable(_) | Holder::Finalizer | Holder::Stack(..) => None,
        };
        let lead: Vec<_> = roots.all.iter().filter_map(lead).collect();
        let known = Known {
            variables: &in_variables,
            stated: &stated,
            on_stacks: &on_stacks,
            lead: &lead,
            set: code.set,
        };
        let minor = layout.minor;
        let typing = Typing::of(moment, &heap, &references, types, seeds, &known, minor);
        // They have told what they tell.
        references.seeds = Vec::<Seed>::new();
        Ok(Self { heap, references, goroutines, roots, marks, typing, leaked, types })
    }

    /// What is reached, by kind: the number of the kind, 0 for unknown, and the sum; those of most bytes first.
    pub fn kinds(&self) -> Vec<(u32, Sum)> {
        let mut sums = vec![Sum::default(); self.typing.kinds() + 1];
        for span in &self.heap.spans {
            for object in span.first..span.first + span.slots {
                if self.marks.is_reached(object)
                    && let Some(sum) = sums.get_mut(self.typing.number(object) as usize)
                {
                    sum.add(span.size);
                }
            }
        }
        let rows = (0..).zip(sums).filter(|(_, sum)| sum.objects > 0);
        let mut rows: Vec<(u32, Sum)> = rows.collect();
        rows.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.bytes));
        rows
    }

    /// What a kind is called.
    pub fn name_of_kind(&self, kind: u32) -> Option<String> {
        typing::name(self.typing.kind(kind)?, self.types)
    }

    /// What an object is called, by its type.
    pub fn name(&self, object: Object) -> Option<String> {
        self.name_of_kind(self.typing.number(object))
    }
}
