//! What the roots are called that hold blocks: variables, threads, frames, mappings. Roots of one
//! name are one group.

use std::collections::HashMap;

use heapattach_census::Moment;
use heapattach_injector::moment::{Rules, Scene, Standing};
use heapattach_process::proc::maps::{self, Mapping};
use heapattach_reach::{RootKind, RootWord};
use heapattach_report::Holder;
use heapattach_symbols::Symbols;
use heapattach_text::{printable::printable, quantity::bytes};

use super::source::Source;
use crate::check::{
    frame_report::told,
    holders::{code_beside, local_to, on_stack},
};

/// Variables without a symbol that lie so near to the first of them are one: `begin` and `end`.
const NEAR: u64 = 64;
/// So many words on stacks are looked for in frames; groups that have a name of their own.
const MOST_FRAMES: usize = 1000;
const MOST: usize = 1 << 16;

/// Names of groups.
pub(super) struct Roots<'a, 'm> {
    moment: &'a Moment<'m>,
    scene: &'a Scene,
    source: Source<'a>,
    maps: Vec<Mapping<'a>>,
    symbols: Symbols,
    rules: Option<Option<Rules>>,
    frames: usize,
    /// The first word of the last group of variables without a symbol, and the group.
    last: Option<(u64, u32)>,
    by_name: HashMap<(RootKind, String), u32>,
    pub(super) names: Vec<(RootKind, String)>,
}

impl<'a, 'm> Roots<'a, 'm> {
    /// Of a moment; `maps` is the text of the memory map.
    pub(super) fn new(
        source: Source<'a>,
        moment: &'a Moment<'m>,
        scene: &'a Scene,
        maps: &'a [u8],
    ) -> Self {
        let maps = maps::parse(maps).unwrap_or_default();
        let mut symbols = Symbols::new();
        symbols.with_variables();
        source.note(&mut symbols, &maps);
        let (rules, frames, last, by_name, names) = Default::default();
        Self { moment, scene, source, maps, symbols, rules, frames, last, by_name, names }
    }

    /// The group of a root.
    pub(super) fn group(&mut self, word: &RootWord) -> u32 {
        let kind = word.kind;
        let name = match kind {
            RootKind::Globals => match self.variable(word.at) {
                Ok(name) => name,
                Err(name) => {
                    if let Some((first, group)) = self.last
                        && word.at.checked_sub(first).is_some_and(|behind| behind < NEAR)
                    {
                        return group;
                    }
                    let group = self.number(kind, name);
                    self.last = Some((word.at, group));
                    return group;
                }
            },
            RootKind::Tls => match local_to(&self.scene.threads, word.at) {
                Some(thread) => Holder::ThreadLocal { thread: self.thread(thread.tid) }.words(),
                None => kind.words().0.to_owned(),
            },
            RootKind::Stacks => self.frame(word.at),
            RootKind::Mapped | RootKind::Shared | RootKind::Heap => self.mapping(kind, word.at),
            RootKind::Registers | RootKind::Kernel | RootKind::Loader | RootKind::Announced => {
                kind.words().0.to_owned()
            }
        };
        self.number(kind, name)
    }

    fn number(&mut self, kind: RootKind, name: String) -> u32 {
        let name = if self.names.len() < MOST { name } else { "(others)".to_owned() };
        if let Some(group) = self.by_name.get(&(kind, name.clone())) {
            return *group;
        }
        let group = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push((kind, name.clone()));
        self.by_name.insert((kind, name), group);
        group
    }

    /// Its symbol; or where it lies in its module.
    fn variable(&mut self, at: u64) -> Result<String, String> {
        let Some(code) = code_beside(&self.maps, at) else {
            return Err("a variable".to_owned());
        };
        if let Some((name, _)) = self.symbols.variable(code, at) {
            return Ok(printable(&name));
        }
        let image = self.moment.images().iter().find(|image| image.range.contains(&code));
        let start = image.map_or(code, |image| image.range.start);
        let module = self.moment.region(code).map_or("", |region| region.label.as_str());
        let module = module.rsplit('/').next().unwrap_or_default();
        Err(format!("{}+{:#x}", printable(module), at.wrapping_sub(start)))
    }

    fn thread(&self, tid: i32) -> String {
        match self.source.thread_name(tid) {
            Some(name) => format!("thread {tid} ({})", printable(&name)),
            None => format!("thread {tid}"),
        }
    }

    fn frame(&mut self, at: u64) -> String {
        let Some(thread) = on_stack(&self.maps, &self.scene.threads, at) else {
            return RootKind::Stacks.words().0.to_owned();
        };
        let code = self.owner(thread, at);
        let frame = code.and_then(|code| self.symbols.symbolize(code).pop());
        let function = frame.map(|mut frame| {
            // Lines of one function are one holder.
            (frame.file, frame.line) = (None, None);
            printable(&told(frame).place())
        });
        Holder::Frame { thread: self.thread(thread.tid), function }.words()
    }

    fn owner(&mut self, thread: &Standing, at: u64) -> Option<u64> {
        self.frames += 1;
        if self.frames > MOST_FRAMES {
            return None;
        }
        let rules = self.rules.get_or_insert_with(|| self.source.rules(&self.maps));
        thread.owner(at, rules.as_ref()?, &mut |at| self.moment.word(at).unwrap_or(0))
    }

    fn mapping(&self, kind: RootKind, at: u64) -> String {
        match self.moment.region(at) {
            Some(region) if !region.label.is_empty() => printable(&region.label),
            Some(region) => format!("anonymous mapping of {}", bytes(region.bytes())),
            None => kind.words().0.to_owned(),
        }
    }
}
