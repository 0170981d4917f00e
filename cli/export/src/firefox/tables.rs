//! Calls, functions, files and names: tables of columns, which refer to one another by index.

use std::collections::HashMap;

use serde::{Serialize, Serializer, ser::SerializeStruct};
use serde_json::{Value, json};

use crate::{harmless, sample::REST};
use heapattach_ledger::{Ledger, stack_trie::Trie};

/// Of the kinds of resources, a library.
const LIBRARY: u32 = 1;

/// Tables that all threads share.
pub struct Tables<'a> {
    /// What they are made of.
    pub ledger: &'a Ledger,
    strings: Vec<String>,
    known: HashMap<String, usize>,
    /// By location: the frame of its outermost call.
    frames: Vec<u32>,
    /// Its steps are calls: which frame.
    paths: Trie,
}

/// What they are written as.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shared {
    stack_table: StackTable,
    #[serde(flatten)]
    rest: Value,
}

/// There may be millions of calls: they are told without a copy.
struct StackTable(Trie);

/// By call: the number of its caller, if it has one.
struct Callers<'a>(&'a Trie);

impl Serialize for StackTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("StackTable", 3)?;
        fields.serialize_field("frame", self.0.steps())?;
        fields.serialize_field("prefix", &Callers(&self.0))?;
        fields.serialize_field("length", &self.0.steps().len())?;
        fields.end()
    }
}

impl Serialize for Callers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.begins().map(|caller| caller.checked_sub(1)))
    }
}

impl<'a> Tables<'a> {
    /// Of no stack yet.
    pub fn new(ledger: &'a Ledger) -> Self {
        let mut frames = Vec::with_capacity(ledger.locations.len());
        let mut next = 0;
        for location in &ledger.locations {
            frames.push(next);
            next += u32::try_from(location.lines.len()).unwrap_or(0);
        }
        Self { ledger, strings: Vec::new(), known: HashMap::new(), frames, paths: Trie::default() }
    }

    fn string(&mut self, text: &str) -> usize {
        let text = harmless::line(text);
        if let Some(&known) = self.known.get(&text) {
            return known;
        }
        self.strings.push(text.clone());
        self.known.insert(text, self.strings.len() - 1);
        self.strings.len() - 1
    }

    /// The innermost call of a stack.
    pub fn stack(&mut self, stack: Option<u32>) -> Option<u32> {
        let Self { ledger, frames, paths, .. } = self;
        let locations = stack.and_then(|stack| ledger.stacks.get(stack)).map(|s| s.locations);
        let told = locations.unwrap_or_default().iter().rev().flat_map(|&index| {
            (frames[index as usize]..).take(ledger.locations[index as usize].lines.len())
        });
        // Beyond the frames of all locations.
        let rest = stack.is_none().then(|| {
            let lines = ledger.locations.iter().map(|location| location.lines.len());
            u32::try_from(lines.sum::<usize>()).unwrap_or(u32::MAX)
        });
        paths.walk(rest.into_iter().chain(told)).checked_sub(1)
    }

    /// The tables in the form of the file.
    pub fn shared(mut self) -> Shared {
        let (frames, functions) = (self.frame_table(), self.function_table());
        let modules = &self.ledger.modules;
        let names: Vec<_> = modules.iter().map(|module| self.string(&module.path)).collect();
        let (sources, functions) = functions;
        let rest = json!({
            "frameTable": frames,
            "funcTable": functions,
            "resourceTable": {
                "type": vec![LIBRARY; names.len()],
                "lib": (0..names.len()).collect::<Vec<_>>(),
                "host": vec![Value::Null; names.len()],
                "length": names.len(),
                "name": names,
            },
            "nativeSymbols": {
                "libIndex": [], "address": [], "name": [], "functionSize": [], "length": 0,
            },
            "sources": sources,
            "stringArray": self.strings,
        });
        Shared { stack_table: StackTable(self.paths), rest }
    }

    /// The outermost call of each location first.
    fn frame_table(&self) -> Value {
        let (mut address, mut depths, mut functions, mut lines) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for location in &self.ledger.locations {
            for (depth, line) in location.lines.iter().rev().enumerate() {
                // An address within the call, not behind it.
                address.push(json!(location.offset.saturating_sub(1)));
                depths.push(depth);
                functions.push(line.function as usize);
                lines.push(line.line);
            }
        }
        address.push(json!(-1));
        depths.push(0);
        functions.push(self.ledger.functions.len());
        lines.push(None);
        let length = lines.len();
        json!({
            "address": address,
            "inlineDepth": depths,
            "category": vec![0; length],
            "subcategory": vec![0; length],
            "func": functions,
            "nativeSymbol": vec![Value::Null; length],
            "innerWindowID": vec![Value::Null; length],
            "line": lines,
            "column": vec![Value::Null; length],
            "length": length,
        })
    }

    /// Source files, and functions.
    fn function_table(&mut self) -> (Value, Value) {
        let ledger = self.ledger;
        let (mut files, mut known) = (Vec::new(), HashMap::new());
        let (mut names, mut resources, mut sources) = (Vec::new(), Vec::new(), Vec::new());
        for function in &ledger.functions {
            names.push(self.string(&function.name));
            resources.push(i64::from(function.module));
            let source = (!function.file.is_empty()).then(|| {
                *known.entry(&function.file).or_insert_with(|| {
                    files.push(self.string(&function.file));
                    files.len() - 1
                })
            });
            sources.push(source);
        }
        names.push(self.string(REST));
        resources.push(-1);
        sources.push(None);
        let length = names.len();
        let table = json!({
            "name": names,
            "isJS": vec![false; length],
            "relevantForJS": vec![false; length],
            "resource": resources,
            "source": sources,
            "lineNumber": vec![Value::Null; length],
            "columnNumber": vec![Value::Null; length],
            "length": length,
        });
        let files = json!({
            "uuid": vec![Value::Null; files.len()],
            "length": files.len(),
            "filename": files,
        });
        (files, table)
    }
}
