//! The objects of a Go program: what they are, what holds them, and goroutines that wait for ever.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap, HashSet},
    fs::File,
    time::{Duration, Instant},
};

use heapattach_census::{
    Moment,
    types::{Certainty, ClassRow, Language},
};
use heapattach_golang::{
    self as golang,
    dwarf::{self, Pointer, Typed},
    find::FindError,
    graph::{
        excess::{self, Excess, Why},
        goroutine::Goroutine,
        heap::Sum,
        objects::{self, ByCode, Objects},
        paths::Paths,
        roots::Holder,
        sampled::{self, Joined},
        site::{Code, Estimated, OfType, Sites, by_type, stated},
        types::{Slot, What},
        waiting,
        walker::Runtime,
    },
    profile,
};
use heapattach_report::{
    Amount, GoAsked, GoExcess, GoExcessKind, GoHeapReport, GoHolder, GoLeak, GoPath, GoProfiled,
    GoSampled, HoldersReport,
};
use heapattach_verdict::figure::whole;

use super::{
    HeapOptions, WhoHolds, WithHolders, go_holders,
    go_stacks::{Place, Stacks},
    source::Source,
};

/// Places where goroutines wait for ever, and paths to what was asked for.
const LEAKS: usize = 1000;
const ASKED: usize = 100;
/// Rows of the sampled profile, and of what is kept beyond need.
const SAMPLED: usize = 100;
const PROFILED: usize = 100;
const EXCESS: usize = 100;
/// What the runtime samples at, where that cannot be found.
const RATE: u64 = 512 << 10;

/// What finalizers hold is called so.
const FINALIZER: &str = "$finalizer";

/// Where it is only wanted if that takes no long time, what holds more objects is not looked for.
const FEW_OBJECTS: usize = 1 << 20;

/// What is told of a Go program.
#[derive(Default)]
pub(super) struct Told {
    pub(super) heap: GoHeapReport,
    pub(super) classes: Vec<ClassRow>,
    /// What would be freed with what holds it, if that is wanted.
    pub(super) holders: Option<HoldersReport>,
}

/// A Go program at a moment.
pub(super) struct Go<'a, 'm> {
    moment: &'a Moment<'m>,
    found: golang::Go,
    /// For the census, too; or why it is not known.
    pub(super) runtime: Result<Runtime, FindError>,
    /// Names and types of variables, unless the program was stripped.
    variables: Option<dwarf::Variables>,
    /// The program, where it has these.
    program: Option<File>,
    /// Functions that were asked for, by an address of each.
    names: RefCell<HashMap<u64, Option<String>>>,
}

impl<'a, 'm> Go<'a, 'm> {
    /// Looks for it; or answers why nothing can be said of it.
    pub(super) fn find(
        moment: &'a Moment<'m>,
        source: Source<'_>,
    ) -> Option<Result<Self, GoHeapReport>> {
        let found = match golang::Go::find(moment)? {
            Ok(found) => found,
            Err(error) => {
                let error = Some(error.to_string());
                return Some(Err(GoHeapReport { error, ..GoHeapReport::default() }));
            }
        };
        let is_program = moment.images().first() == Some(&found.image);
        let file = || is_program.then(|| source.program(found.image.range.start)).flatten();
        let variables = file().and_then(dwarf::Variables::read);
        let program = variables.as_ref().and_then(|_| file());
        let named = |name: &str| Some(variables.as_ref()?.named(name)?.wrapping_add(found.bias));
        let runtime = found.runtime(moment, &named);
        Some(Ok(Self { moment, found, runtime, variables, program, names: RefCell::default() }))
    }

    /// Nothing of it, and why.
    pub(super) fn refused(&self, why: &str) -> Told {
        let version = self.found.release.text.clone();
        let error = Some(why.to_owned());
        Told { heap: GoHeapReport { version, error, ..GoHeapReport::default() }, ..Told::default() }
    }

    /// What the heap has, and the classes of its objects.
    pub(super) fn report(&self, options: &HeapOptions) -> Told {
        let began = Instant::now();
        let version = self.found.release.text.clone();
        let heap = GoHeapReport { version, ..GoHeapReport::default() };
        let mut told = Told { heap, ..Told::default() };
        let runtime = match &self.runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                told.heap.error = Some(error.to_string());
                return told;
            }
        };
        let (layout, variables) = (&runtime.layout, &runtime.variables);
        let types = objects::types(self.moment, layout, variables);
        let first = types.modules.types.first().map_or(0, |range| range.start);
        let goroutines = Goroutine::all(self.moment, layout, variables);
        let file = self.program.as_ref().and_then(|file| file.try_clone().ok());
        let stacks = Stacks::of(self.moment, &self.found, layout, &goroutines, file);
        let known = |at| self.leads_to(at, first).or_else(|| slot(stacks.pointer_at(at)?, first));
        let mut within = Duration::ZERO;
        let minor = self.found.release.minor;
        let (name, range) = (|code| self.function(code), |code| self.found.functions.range(code));
        let sites = Sites::new(self.moment, Code { name: &name, range: &range }, &types, minor);
        let allocated = |stack: &[u64], size| sites.allocates_itself(stack, size);
        let set = |wanted: &[u64]| stated(&sites, &self.found.functions.text, wanted);
        let code = ByCode { allocated: &allocated, set: &set };
        let of = (layout, variables);
        let is_pointer = |at| stacks.is_pointer_at(at);
        match Objects::read(self.moment, &types, of, goroutines, (&known, &is_pointer), code) {
            Ok(objects) => {
                let of = Beside { runtime, sites: &sites, known: &known, stacks: &stacks };
                told.classes = self.fill(&objects, of, options, &mut told.heap);
                let before = Instant::now();
                told.holders = self.holders(&objects, options, &stacks);
                within = before.elapsed();
            }
            Err(error) => told.heap.error = Some(error.to_string()),
        }
        told.heap.took_ms = (began.elapsed() - within).as_secs_f64() * 1e3;
        told
    }

    fn holders(
        &self,
        objects: &Objects<'_, '_>,
        options: &HeapOptions,
        stacks: &Stacks<'_, '_>,
    ) -> Option<HoldersReport> {
        let is_wanted = match options.holders {
            WithHolders::No => false,
            WithHolders::IfSmall => objects.heap.slots() <= FEW_OBJECTS,
            WithHolders::Yes => true,
        };
        // Of a variable, not of each field. Variables of a function often lead to the same: that is the function's.
        let name = &mut |holder: &Holder| {
            let own = self.root(holder, &objects.goroutines, stacks).into_iter().take(1);
            let function = match holder {
                Holder::Stack(number, at) => Some(self.on_stack(&objects.goroutines, *number, *at)),
                Holder::Variable(_) | Holder::Finalizer => None,
            };
            let mut names: Vec<String> = function.into_iter().chain(own).collect();
            names.dedup();
            names
        };
        is_wanted.then(|| go_holders::report(objects, &options.filter, name))
    }

    fn fill(
        &self,
        objects: &Objects<'_, '_>,
        beside: Beside<'_, 'm>,
        options: &HeapOptions,
        report: &mut GoHeapReport,
    ) -> Vec<ClassRow> {
        let Beside { runtime, sites, known, stacks } = beside;
        report.allocated = amount(objects.heap.counted);
        report.reached = amount(objects.marks.reached);
        report.goroutines = objects.goroutines.len() as u64;
        report.stacks = objects.goroutines.iter().map(|one| one.stack_size).sum();
        let function = |code| self.function(code);
        let groups = waiting::by_place(&objects.leaked, &objects.goroutines, &function);
        report.leaked_goroutines = objects.leaked.goroutines.len() as u64;
        report.leaked = groups.into_iter().take(LEAKS).map(leak).collect();
        let mut rows = Vec::new();
        for (kind, sum) in objects.kinds() {
            if let Some(name) = objects.name_of_kind(kind) {
                report.typed.bytes += sum.bytes;
                report.typed.blocks += sum.objects;
                let (blocks, bytes) = (sum.objects, sum.bytes);
                let (language, certainty) = (Language::Go, Certainty::Certain);
                rows.push(ClassRow { name, language, certainty, blocks, bytes });
            }
        }
        let goroutines = &objects.goroutines;
        let paths = Paths::of(objects, &mut |holder| self.root(holder, goroutines, stacks));
        report.holders = holders(&paths, options.go_holders);
        let excess = excess::find(self.moment, objects, &paths, known);
        report.excess = excess.into_iter().take(EXCESS).map(told_excess).collect();
        let interval = runtime.variables.profile_rate.and_then(|at| self.moment.word(at));
        report.profile = self.profile(sites);
        let interval = interval.unwrap_or(RATE);
        let joined = sampled::join(self.moment, objects, &paths, interval, &function, sites);
        report.sampled = told_samples(joined);
        let asked = options.who_holds.as_ref();
        report.asked = asked.map(|what| asked_for(what, objects, &paths));
        rows
    }

    /// The sampled profile by type; nothing where the program keeps none.
    fn profile(&self, sites: &Sites<'_, '_>) -> Vec<GoProfiled> {
        let named =
            |name: &str| Some(self.variables.as_ref()?.named(name)?.wrapping_add(self.found.bias));
        let reading = self.found.profile(self.moment, &named).ok().and_then(|mut profile| {
            profile.read(&Still(self.moment)).ok().filter(|reading| reading.rate > 0)
        });
        let all = reading.map(|reading| by_type(&reading, sites)).unwrap_or_default();
        let mut all: Vec<_> = all.into_iter().collect();
        let weight = |one: &OfType| (one.live.bytes, one.allocated.bytes);
        all.sort_by(|a, b| {
            let ((a, before), (b, after)) = (weight(&a.1), weight(&b.1));
            b.total_cmp(&a).then(after.total_cmp(&before))
        });
        let estimate = |of: Estimated| Amount { bytes: whole(of.bytes), blocks: whole(of.objects) };
        let row = |(class, of): (Option<String>, OfType)| GoProfiled {
            class,
            stacks: of.buckets,
            live: estimate(of.live),
            allocated: estimate(of.allocated),
        };
        all.into_iter().take(PROFILED).map(row).collect()
    }

    /// What a root is called, and the fields of a variable that lead to it.
    fn root(
        &self,
        holder: &Holder,
        goroutines: &[Goroutine],
        stacks: &Stacks<'_, '_>,
    ) -> Vec<String> {
        match holder {
            Holder::Variable(at) => self.variable(*at),
            Holder::Finalizer => vec![FINALIZER.to_owned()],
            Holder::Stack(number, at) => match stacks.at(*at) {
                Some(Place::Local(local, place)) if !is_runtime(&local.name) => {
                    let fields = local.pointer_at(place).map(|pointer| &pointer.fields);
                    let name = std::iter::once(&local.name);
                    name.chain(fields.into_iter().flatten()).cloned().collect()
                }
                Some(Place::Slot(code, from_sp)) => {
                    let own = self.function(code).filter(|name| !is_runtime(name));
                    let slot = own.map(|name| format!("{name}+{from_sp:#x} (slot)"));
                    vec![slot.unwrap_or_else(|| self.on_stack(goroutines, *number, *at))]
                }
                Some(Place::Local(..) | Place::Other) | None => {
                    vec![self.on_stack(goroutines, *number, *at)]
                }
            },
        }
    }

    /// The function that has a word of a stack.
    fn on_stack(&self, goroutines: &[Goroutine], number: u32, at: u64) -> String {
        let goroutine = goroutines.get(number as usize);
        let calls = goroutine.map_or(&[][..], |goroutine| goroutine.calls_at(at));
        let mut names = calls.iter().filter_map(|call| self.function(call.code));
        // What the runtime has on a stack it has for the function that called it.
        let own = names.find(|name| !is_runtime(name));
        let start = || goroutine.and_then(|one| self.function(one.start));
        own.or_else(start).unwrap_or_else(|| "stack of a goroutine".to_owned())
    }

    fn function(&self, code: u64) -> Option<String> {
        let mut names = self.names.borrow_mut();
        let look = || self.found.functions.name(self.moment, code);
        names.entry(code).or_insert_with(look).clone()
    }

    /// A variable, and the fields of it that an address lies in.
    fn variable(&self, at: u64) -> Vec<String> {
        let own = at.wrapping_sub(self.found.bias);
        let known = self.variables.as_ref();
        let Some(variable) = known.and_then(|all| all.at(own)) else {
            return vec![format!("variable {own:#x}")];
        };
        let fields = known.and_then(|all| all.pointer_at(own)).map(|pointer| &pointer.fields);
        let name = std::iter::once(&variable.name);
        name.chain(fields.into_iter().flatten()).cloned().collect()
    }

    /// What the pointer leads to that lies there, by the debug data; types begin at `first`.
    fn leads_to(&self, at: u64, first: u64) -> Option<Slot> {
        slot(self.variables.as_ref()?.pointer_at(at.wrapping_sub(self.found.bias))?, first)
    }
}

/// What an object is told by, besides itself.
#[derive(Clone, Copy)]
struct Beside<'b, 'm> {
    runtime: &'b Runtime,
    sites: &'b Sites<'b, 'm>,
    known: objects::KnownVariables<'b>,
    stacks: &'b Stacks<'b, 'm>,
}

fn is_runtime(function: &str) -> bool {
    function.starts_with("runtime.")
}

/// What a pointer leads to; types begin at `first`.
fn slot(pointer: &Typed, first: u64) -> Option<Slot> {
    let what = match pointer.what {
        Pointer::One => What::One,
        Pointer::Many => What::Many,
        Pointer::Text => What::Text,
        Pointer::Map => What::Map,
        Pointer::Chan => What::Chan,
        Pointer::Held => What::Held,
    };
    let of = pointer.of.map_or(0, |of| first.wrapping_add(of));
    Some(Slot { offset: 0, what, of })
}

/// Memory of a moment, which does not change.
struct Still<'a, 'm>(&'a Moment<'m>);

impl profile::Live for Still<'_, '_> {
    fn read(&self, at: u64, buffer: &mut [u8]) -> bool {
        self.0.read(at, buffer) == buffer.len()
    }
}

fn told_excess(one: Excess) -> GoExcess {
    let why = match one.why {
        Why::Map => GoExcessKind::Map,
        Why::Slice => GoExcessKind::Slice,
        Why::Cycle => GoExcessKind::Cycle,
    };
    let Excess { path, number, used, room, kept, .. } = one;
    GoExcess { why, path, number, used, room, kept: amount(kept) }
}

fn amount(sum: Sum) -> Amount {
    Amount { bytes: sum.bytes, blocks: sum.objects }
}

/// Those that stand for most bytes.
fn told_samples(joined: sampled::ByAll) -> Vec<GoSampled> {
    let mut rows: Vec<_> = joined.into_iter().collect();
    rows.sort_by(|a, b| b.1.bytes.total_cmp(&a.1.bytes));
    let row = |((allocated_by, class, held_by), row): ((String, _, Vec<String>), Joined)| {
        let estimate = Amount { bytes: whole(row.bytes), blocks: whole(row.objects) };
        GoSampled { allocated_by, class, held_by, samples: row.samples, estimate }
    };
    rows.into_iter().take(SAMPLED).map(row).collect()
}

/// What holds the objects of a type, or the one that has an address.
fn asked_for(wanted: &WhoHolds, objects: &Objects<'_, '_>, paths: &Paths) -> GoAsked {
    let mut asked = GoAsked::default();
    let mut sums: BTreeMap<u32, Sum> = BTreeMap::new();
    let mut add = |object, size| {
        if let Some(node) = paths.node_of(object) {
            sums.entry(node).or_default().add(size);
        }
    };
    match wanted {
        WhoHolds::Address(address) => {
            asked.what = format!("{address:#x}");
            let address = *address;
            if let Some((object, _)) = objects.heap.find(address) {
                asked.named = objects.name(object);
                add(object, objects.heap.span_of(object).size);
            }
        }
        WhoHolds::Type(what) => {
            asked.what.clone_from(what);
            let kinds = 0..=u32::try_from(objects.typing.kinds()).unwrap_or(u32::MAX);
            // The type of this name, or else all that have it in theirs.
            let name = |kind: &u32| objects.name_of_kind(*kind).unwrap_or_default();
            let is_one = kinds.clone().any(|kind| name(&kind) == *what);
            let is_asked = |kind: &u32| match is_one {
                true => name(kind) == *what,
                false => name(kind).contains(what.as_str()),
            };
            let kinds: HashSet<u32> = kinds.filter(is_asked).collect();
            for span in &objects.heap.spans {
                for object in span.first..span.first + span.slots {
                    if kinds.contains(&objects.typing.number(object)) {
                        add(object, span.size);
                    }
                }
            }
        }
    }
    let mut rows: Vec<(u32, Sum)> = sums.into_iter().collect();
    rows.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.bytes));
    for (_, sum) in &rows {
        asked.objects.bytes += sum.bytes;
        asked.objects.blocks += sum.objects;
    }
    asked.different_paths = rows.len() as u64;
    asked.paths = rows
        .into_iter()
        .take(ASKED)
        .map(|(node, sum)| GoPath {
            path: paths.labels_of(node).into_iter().map(str::to_owned).collect(),
            objects: amount(sum),
        })
        .collect();
    asked
}

fn leak(group: waiting::Waiting) -> GoLeak {
    GoLeak {
        function: group.function,
        created_by: group.created_by,
        goroutines: group.goroutines,
        retained: amount(group.retained),
        stacks: group.stacks,
    }
}

/// The paths that hold most, with those that they go on from.
fn holders(paths: &Paths, count: usize) -> Vec<GoHolder> {
    let chosen = paths.largest(count);
    let of = |node: &u32| {
        let own = &paths.nodes[*node as usize];
        let before = own.before.and_then(|before| chosen.binary_search(&before).ok());
        GoHolder {
            before: before.map(|before| before as u64),
            name: paths.labels.get(own.label as usize).cloned().unwrap_or_default(),
            own: amount(own.own),
            all: amount(own.all),
        }
    };
    chosen.iter().map(of).collect()
}
