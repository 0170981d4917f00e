//! The objects of a Go program: what they are, what holds them, and goroutines that wait for ever.

use std::time::Instant;

use heapattach_census::{
    Moment,
    types::{ClassRow, Language},
};
use heapattach_golang::{
    dwarf::{self, Pointer},
    find::{self, FindError},
    graph::{
        goroutine::Goroutine,
        heap::Sum,
        objects::{self, Objects},
        paths::Paths,
        roots::Holder,
        types::{Slot, What},
        waiting,
        walker::Runtime,
    },
};
use heapattach_process::proc::Process;
use heapattach_report::{Amount, GoHeapReport, GoHolder, GoLeak};

/// Paths that are told, those that hold most.
const HOLDERS: usize = 5_000;
/// Places where goroutines wait for ever.
const LEAKS: usize = 100;

/// A Go program at a moment.
pub(super) struct Go<'a, 'm> {
    moment: &'a Moment<'m>,
    found: find::Go,
    /// For the census, too; or why it is not known.
    pub(super) runtime: Result<Runtime, FindError>,
    /// Names and types of variables, unless the program was stripped.
    variables: Option<dwarf::Variables>,
}

impl<'a, 'm> Go<'a, 'm> {
    /// Looks for it; or answers why nothing can be said of it.
    pub(super) fn find(
        moment: &'a Moment<'m>,
        process: &Process,
    ) -> Option<Result<Self, GoHeapReport>> {
        let found = match find::Go::find(moment)? {
            Ok(found) => found,
            Err(error) => {
                let error = Some(error.to_string());
                return Some(Err(GoHeapReport { error, ..GoHeapReport::default() }));
            }
        };
        let runtime = found.runtime(moment);
        let is_program = moment.images().first() == Some(&found.image);
        let is_known = is_program && runtime.is_ok();
        let file = is_known.then(|| process.open_program().ok()).flatten();
        let variables = file.and_then(dwarf::Variables::read);
        Some(Ok(Self { moment, found, runtime, variables }))
    }

    /// What the heap has, and the classes of its objects.
    pub(super) fn report(&self) -> (GoHeapReport, Vec<ClassRow>) {
        let began = Instant::now();
        let version = self.found.release.text.clone();
        let mut report = GoHeapReport { version, ..GoHeapReport::default() };
        let runtime = match &self.runtime {
            Ok(runtime) => runtime,
            Err(error) => {
                report.error = Some(error.to_string());
                return (report, Vec::new());
            }
        };
        let (layout, variables) = (&runtime.layout, &runtime.variables);
        let types = objects::types(self.moment, layout, variables);
        let first = types.modules.types.first().map_or(0, |range| range.start);
        let known = |at| self.leads_to(at, first);
        let rows = match Objects::read(self.moment, &types, layout, variables, &known) {
            Ok(objects) => self.fill(&objects, &mut report),
            Err(error) => {
                report.error = Some(error.to_string());
                Vec::new()
            }
        };
        report.took_ms = began.elapsed().as_secs_f64() * 1e3;
        (report, rows)
    }

    fn fill(&self, objects: &Objects<'_, '_>, report: &mut GoHeapReport) -> Vec<ClassRow> {
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
                rows.push(ClassRow { name, language: Language::Go, blocks, bytes });
            }
        }
        let paths = Paths::of(objects, &mut |holder| self.root(holder, &objects.goroutines));
        report.holders = holders(&paths);
        rows
    }

    /// What a root is called, and the fields of a variable that lead to it.
    fn root(&self, holder: &Holder, goroutines: &[Goroutine]) -> Vec<String> {
        match holder {
            Holder::Variable(at) => self.variable(*at),
            Holder::Finalizer => vec!["$finalizer".to_owned()],
            Holder::Stack(number, at) => {
                let goroutine = goroutines.get(*number as usize);
                let calls = goroutine.map_or(&[][..], |goroutine| goroutine.calls_at(*at));
                let mut names = calls.iter().filter_map(|call| self.function(call.code));
                // What the runtime has on a stack it has for the function that called it.
                let own = names.find(|name| !name.starts_with("runtime."));
                let start = || goroutine.and_then(|one| self.function(one.start));
                vec![own.or_else(start).unwrap_or_else(|| "stack of a goroutine".to_owned())]
            }
        }
    }

    fn function(&self, code: u64) -> Option<String> {
        self.found.functions.name(self.moment, code)
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
        let pointer = self.variables.as_ref()?.pointer_at(at.wrapping_sub(self.found.bias))?;
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
}

fn amount(sum: Sum) -> Amount {
    Amount { bytes: sum.bytes, blocks: sum.objects }
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
fn holders(paths: &Paths) -> Vec<GoHolder> {
    let chosen = paths.largest(HOLDERS);
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
