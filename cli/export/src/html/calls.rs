//! Stacks as a tree from the outermost call on: what stacks have in common is written once.
//!
//! Functions are told apart by name and module, not by index or address: those of two profiles are
//! the same functions then, though they were loaded elsewhere or built anew.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    hash::Hash,
};

use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::source::Candidate;
use crate::tree::cut;
use heapattach_ledger::{
    EndReason, FrameReport, Function, Ledger, Line, Metric, Stack,
    hidden::{Hidden, Part},
    stack_trie::Trie,
};
use heapattach_text::short_name::short_name;

/// Calls of one stack; deeper stacks are cut at the outer end, and the page says so.
const DEPTH: usize = 1000;

/// Calls, and the tree that they make. What is in it refers by index to what is before it.
#[derive(Debug, Default, Serialize)]
pub struct Calls {
    /// Paths. The first is that of nothing.
    modules: Vec<String>,
    /// Name, source file, module.
    functions: Vec<(String, String, u32)>,
    /// Short names of functions that have another whole one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shorts: Vec<(u32, String)>,
    /// Functions that are none, but why a stack is not known further out, each with the reason.
    marks: Vec<(u32, &'static str)>,
    /// Functions of an interpreter, and those that are code which it runs.
    interpreters: Vec<u32>,
    scripts: Vec<u32>,
    /// A function and a line of it, or 0.
    calls: Vec<(u32, u32)>,
    #[serde(flatten)]
    nodes: Nodes,
    #[serde(skip)]
    known: Known,
    /// The calls of a stack.
    #[serde(skip)]
    room: Vec<u32>,
    /// Which functions are an interpreter's.
    #[serde(skip)]
    hidden: Hidden,
    /// Whether two profiles are told about.
    #[serde(skip)]
    is_compared: bool,
    /// Builds whose lines mean the same in all profiles.
    #[serde(skip)]
    same_builds: HashSet<String>,
}

/// The tree: a step of its paths is a node. There may be ten millions, and they are told without a copy.
#[derive(Debug, Default)]
struct Nodes(Trie);

impl Nodes {
    /// Of each node how many nodes before it the one outside is. Node 0 is the root, and not listed.
    /// Most are right behind their parent, and a 1 needs little room.
    fn parents(&self) -> impl Iterator<Item = u32> {
        (1..).zip(self.0.begins()).map(|(node, parent): (u32, u32)| node - parent)
    }

    /// Of each node the call.
    fn calls(&self) -> &[u32] {
        self.0.steps()
    }
}

impl Serialize for Nodes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Nodes", 2)?;
        fields.serialize_field("parents", &Parents(self))?;
        fields.serialize_field("nodes", self.calls())?;
        fields.end()
    }
}

/// Made while they are told.
struct Parents<'a>(&'a Nodes);

impl Serialize for Parents<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.parents())
    }
}

/// The calls at each location of one profile.
pub struct Places(Vec<Vec<u32>>);

#[derive(Debug, Default)]
struct Known {
    modules: HashMap<String, u32>,
    functions: HashMap<(String, u32), u32>,
    calls: HashMap<(u32, u32), u32>,
}

impl Calls {
    /// Of one profile, or of two that are compared.
    pub fn new(ledger: &Ledger, base: Option<&Ledger>) -> Self {
        let builds = |ledger: &Ledger| -> HashSet<String> {
            let ids = ledger.modules.iter().map(|module| module.build_id.clone());
            ids.filter(|id| !id.is_empty()).collect()
        };
        let mut calls = Self { is_compared: base.is_some(), ..Self::default() };
        calls.same_builds = base.map(|base| &builds(ledger) & &builds(base)).unwrap_or_default();
        calls.module("");
        calls
    }

    /// The calls at each location of a profile, the innermost first.
    pub fn places(&mut self, ledger: &Ledger) -> Places {
        let all = ledger.locations.iter().map(|location| {
            location.lines.iter().filter_map(|line| self.call(ledger, *line)).collect()
        });
        Places(all.collect())
    }

    /// The innermost node of a stack, and which of its calls is the cause, from the innermost on.
    pub fn stack(&mut self, places: &Places, stack: &Stack) -> (u32, u32) {
        let known = stack.locations.iter().filter_map(|&at| places.0.get(at as usize)).flatten();
        // Used again for the next one: there may be a million.
        let mut calls = std::mem::take(&mut self.room);
        calls.clear();
        calls.extend(known.copied().take(DEPTH + 1));
        let is_too_deep = calls.len() > DEPTH;
        let mark = match (stack.end, is_too_deep) {
            (_, true) => {
                Some(("[cut: deeper than this page]", "after 1000 calls, all that a page shows"))
            }
            (EndReason::Outermost, _) if calls.is_empty() => {
                Some(("[no stack]", "where no call was recorded"))
            }
            (end, _) => cut(end).map(|name| (name, end.place())),
        };
        let mark = mark.map(|(name, why)| self.mark(name, why));
        let shown = mark.into_iter().chain(calls.iter().copied().take(DEPTH).rev());
        let node = self.nodes.0.walk(shown);
        let last = u32::try_from(calls.len().min(DEPTH).saturating_sub(1)).unwrap_or(u32::MAX);
        self.room = calls;
        (node, stack.cause.min(last))
    }

    /// All stacks are known: what they were told apart by is needed no more.
    pub fn finish(&mut self) {
        self.nodes.0.finish();
        self.known = Known::default();
    }

    /// Functions with the lines of them that are in stacks, and their part of all bytes, by these rows.
    pub fn candidates(&self, ledger: &Ledger, places: &Places) -> Vec<Candidate> {
        const METRICS: [Metric; 2] = [Metric::Live, Metric::Allocated];
        let all = METRICS.map(|metric| ledger.total.measure(metric).bytes.value);
        // By function, and after which row each was met last.
        let mut sums = vec![([0.0; 2], 0); self.functions.len()];
        for (number, row) in (1_usize..).zip(&ledger.rows) {
            let Some(stack) = ledger.stacks.get(row.stack) else { continue };
            let bytes = METRICS.map(|metric| row.heap.bytes(metric.into()));
            let known = stack.locations.iter().filter_map(|&at| places.0.get(at as usize));
            for &call in known.flatten() {
                let (sum, met) = &mut sums[self.calls[call as usize].0 as usize];
                // A function that calls itself has the row once.
                if std::mem::replace(met, number) != number {
                    sum.iter_mut().zip(bytes).for_each(|(sum, bytes)| *sum += bytes);
                }
            }
        }
        let mut lines: HashMap<u32, BTreeSet<u32>> = HashMap::new();
        for (function, line) in self.calls.iter().filter(|(_, line)| *line > 0) {
            lines.entry(*function).or_default().insert(*line);
        }
        let met = (0_u32..).zip(&sums).filter(|(_, (_, met))| *met > 0);
        let candidates = met.map(|(function, (sum, _))| Candidate {
            function,
            file: self.functions[function as usize].1.clone(),
            lines: lines.remove(&function).unwrap_or_default(),
            part: sum.iter().zip(all).map(|(sum, all)| sum / all.max(1.0)).fold(0.0, f64::max),
        });
        candidates.collect()
    }

    /// The place of a call that is none: further out nothing is known.
    fn mark(&mut self, name: &str, why: &'static str) -> u32 {
        let function = intern(&mut self.known.functions, (name.to_owned(), 0), || {
            self.marks.push((u32::try_from(self.functions.len()).unwrap_or(u32::MAX), why));
            self.functions.push((name.to_owned(), String::new(), 0));
        });
        self.line(function, 0)
    }

    fn call(&mut self, ledger: &Ledger, line: Line) -> Option<u32> {
        let found = ledger.functions.get(line.function as usize)?;
        let module = ledger.modules.get(found.module as usize);
        let (path, build) = module.map_or(("", ""), |m| (m.path.as_str(), m.build_id.as_str()));
        // Rebuilt or moved elsewhere, a module keeps its name.
        let path = if self.is_compared { path.rsplit('/').next().unwrap_or(path) } else { path };
        let module = self.module(path);
        let function = intern(&mut self.known.functions, (found.name.clone(), module), || {
            let number = u32::try_from(self.functions.len()).unwrap_or(u32::MAX);
            let short = short_name(&found.name);
            if short != found.name {
                self.shorts.push((number, short.into_owned()));
            }
            match kind(&self.hidden, found, path) {
                Part::Interpreter => self.interpreters.push(number),
                Part::Script => self.scripts.push(number),
                Part::Hidden | Part::Other => {}
            }
            self.functions.push((found.name.clone(), found.file.clone(), module));
        });
        // A line of no file tells nothing, and would tell places apart that look the same.
        let has_line =
            !found.file.is_empty() && (!self.is_compared || self.same_builds.contains(build));
        Some(self.line(function, line.line.filter(|_| has_line).unwrap_or(0)))
    }

    fn module(&mut self, path: &str) -> u32 {
        intern(&mut self.known.modules, path.to_owned(), || self.modules.push(path.to_owned()))
    }

    fn line(&mut self, function: u32, line: u32) -> u32 {
        intern(&mut self.known.calls, (function, line), || self.calls.push((function, line)))
    }
}

/// What part a function plays where an interpreter runs code. One module of generated code has the program's
/// functions and the engine's; an allocator's in an interpreter's module is the interpreter's.
fn kind(hidden: &Hidden, function: &Function, module: &str) -> Part {
    let of_module = FrameReport { module: module.to_owned(), ..FrameReport::default() };
    let name = Some(&function.name).filter(|_| function.is_named);
    let file = Some(&function.file).filter(|file| !file.is_empty());
    let frame = FrameReport { function: name.cloned(), file: file.cloned(), ..of_module.clone() };
    match hidden.part(&frame) {
        Part::Hidden => hidden.part(&of_module),
        part => part,
    }
}

/// The number of a key: the next one, and `add` is called, if it is new.
fn intern<K: Hash + Eq>(known: &mut HashMap<K, u32>, key: K, add: impl FnOnce()) -> u32 {
    let next = u32::try_from(known.len()).unwrap_or(u32::MAX);
    *known.entry(key).or_insert_with(|| {
        add();
        next
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;
    use heapattach_text::module_name::PYTHON;

    #[test]
    fn what_stacks_have_in_common_is_one_node() {
        let ledger = sample::ledger();
        let mut calls = Calls::new(&ledger, None);
        let places = calls.places(&ledger);
        let ends: Vec<_> = ledger.stacks.iter().map(|stack| calls.stack(&places, &stack)).collect();
        // main grow_list make_node malloc, main malloc, work malloc
        assert_eq!(ends, [(4, 1), (5, 1), (7, 1)]);
        assert_eq!(calls.nodes.parents().collect::<Vec<_>>(), [1, 1, 1, 1, 4, 6, 1]);
    }

    #[test]
    fn a_stack_that_is_not_whole_has_its_own_root() {
        let mut ledger = sample::ledger();
        ledger.stacks.edit(2, |stack| stack.end = EndReason::NoTable);
        let mut calls = Calls::new(&ledger, None);
        let places = calls.places(&ledger);
        let (node, _) = calls.stack(&places, &ledger.stacks.get(2).unwrap());
        let outermost = calls.calls[calls.nodes.calls()[node as usize - 3] as usize].0;
        let why = "in code without unwind information";
        assert_eq!(calls.functions[outermost as usize].0, "[cut: no unwind table]");
        assert_eq!(calls.marks, [(outermost, why)]);
        assert_eq!(calls.nodes.parents().collect::<Vec<_>>(), [1, 1, 1]);
    }

    #[test]
    fn interpreters_and_their_code_are_told_apart_by_function() {
        let mut ledger = sample::ledger();
        let names = |numbers: &[u32], calls: &Calls| -> Vec<String> {
            numbers.iter().map(|at| calls.functions[*at as usize].0.clone()).collect()
        };
        let told = |ledger: &Ledger| {
            let mut calls = Calls::new(ledger, None);
            calls.places(ledger);
            [names(&calls.interpreters, &calls), names(&calls.scripts, &calls)]
        };
        let none: [&str; 0] = [];
        ledger.modules[1].path = "/usr/bin/python3.11".to_owned();
        assert_eq!(told(&ledger), [vec!["malloc"], none.to_vec()], "an allocator in it");
        ledger.modules[0].path = PYTHON.to_owned();
        let [interpreters, scripts] = told(&ledger);
        assert_eq!(interpreters, ["malloc"]);
        assert!(scripts.iter().any(|name| name == "main"), "{scripts:?}");
        // Generated code is of V8 and of the script, in one module.
        ledger.modules[0].path = "[anonymous]".to_owned();
        let main = ledger.functions.iter().position(|function| function.name == "main").unwrap();
        ledger.functions[main].name = "Builtin:InterpreterEntryTrampoline".to_owned();
        let [interpreters, scripts] = told(&ledger);
        assert!(interpreters.contains(&ledger.functions[main].name), "{interpreters:?}");
        assert!(scripts.iter().any(|name| name == "grow_list"), "{scripts:?}");
    }

    #[test]
    fn functions_are_found_again_in_another_build_at_another_place() {
        let now = sample::ledger();
        let mut base = sample::ledger();
        base.modules[0].path = "/opt/old/list".to_owned();
        base.modules[0].build_id = "ffff".to_owned();
        base.locations.iter_mut().for_each(|location| {
            location.address += 0x5000;
            location.lines.iter_mut().for_each(|line| line.line = line.line.map(|n| n + 3));
        });
        let mut calls = Calls::new(&now, Some(&base));
        // That of libc was not rebuilt, so its lines must agree.
        base.locations[0].lines[0].line = now.locations[0].lines[0].line;
        let (here, there) = (calls.places(&now), calls.places(&base));
        let (one, other) = (now.stacks.get(0).unwrap(), base.stacks.get(0).unwrap());
        assert_eq!(calls.stack(&here, &one), calls.stack(&there, &other));
        assert_eq!(calls.functions.len(), now.functions.len());
    }
}
