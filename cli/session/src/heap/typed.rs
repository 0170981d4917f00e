//! What blocks are that do not say it themselves: by debug data, by what holds them.

use std::{
    collections::HashMap,
    ops::Range,
    time::{Duration, Instant},
};

use heapattach_census::{
    Moment, Walker,
    types::{
        Certainty, ClassRow, Language,
        declared::{Form, Model, Spread, spread},
        places::{Holder, Places},
        shapes::{Languages, Shape, Shapes, search},
    },
};
use heapattach_process::proc::maps;
use heapattach_report::{Amount, PlaceRow, TypedReport};
use heapattach_symbols::{
    Symbols,
    declared::{self, Limits, TypeId},
};

use super::{
    known::{Inner, Known, WithBooks},
    source::Source,
    traits::{self, Traits},
};

/// How long all of it may take; debug data not more than half of that.
const MOST: Duration = Duration::from_secs(30);
/// Entries of debug data, and types, of a module.
const ENTRIES: u64 = 40_000_000;
const TYPES: usize = 1 << 20;
/// Places that are told.
const PLACES: usize = 200;

/// What was found, the classes that only debug data tells, and the blocks with all of these names and the memory of
/// their arenas, if they are known.
pub(super) fn report(
    source: Source<'_>,
    moment: &Moment<'_>,
    walkers: &[&dyn Walker],
) -> ((TypedReport, Vec<ClassRow>), Option<WithBooks>) {
    let began = Instant::now();
    let (known, books) = match Known::blocks(moment, walkers, Inner::Blocks) {
        Ok(found) => found,
        Err(error) => {
            return (
                (TypedReport { error: Some(error), ..TypedReport::default() }, Vec::new()),
                None,
            );
        }
    };
    let mut found = Found::of(&known, source, moment, began);
    let places = found.places(&known, moment, began + MOST);
    let (mut report, rows) = told(&known, &found, &places);
    report.took_ms = began.elapsed().as_secs_f64() * 1e3;
    ((report, rows), Some((found.rename(known), books)))
}

/// The same blocks, with the names of those that debug data or their form tells.
pub(super) fn renamed(known: Known, source: Source<'_>, moment: &Moment<'_>) -> Known {
    Found::of(&known, source, moment, Instant::now()).rename(known)
}

/// What blocks are.
struct Found {
    model: Model,
    names: Names,
    by_block: Vec<Option<Named>>,
    disputed: u64,
    missing: Option<&'static str>,
}

impl Found {
    fn of(known: &Known, source: Source<'_>, moment: &Moment<'_>, began: Instant) -> Self {
        let model = model(known, source, began + MOST / 2);
        let of_classes: Vec<Option<TypeId>> =
            known.names.iter().map(|name| model.named(name)).collect();
        let certain = |number: u32| {
            let class = known.class_of(known.blocks.get(number))?;
            Some(of_classes.get(class).copied().flatten())
        };
        let end = began + MOST;
        let spread = spread(moment, &known.blocks, &model, &certain, known.has_classes, end);
        let (disputed, missing) = (spread.disputed, spread.missing);
        let mut names = Names::default();
        names.classes = known
            .names
            .iter()
            .map(|name| names.number(name.clone(), Language::default()))
            .collect();
        let mut by_block: Vec<Option<Named>> = (0..)
            .take(known.blocks.len())
            .map(|number| names.of(known, &model, &spread, number))
            .collect();
        drop(spread);
        let shapes = shapes(known, moment, &by_block, end);
        names.shapes(known, &shapes, &mut Traits::of(source, moment), &mut by_block);
        let late = shapes.is_over.then_some("there was no time for all shapes");
        Self { model, names, by_block, disputed, missing: missing.or(late) }
    }

    fn rename(&self, known: Known) -> Known {
        let name =
            |number: u32| self.by_block.get(number as usize).copied()?.map(|named| named.name);
        let names = self.names.all.iter().map(|(name, _)| name.clone()).collect();
        known.renamed(&name, names)
    }

    fn places(&mut self, known: &Known, moment: &Moment<'_>, end: Instant) -> Places {
        let Self { model, names, by_block, .. } = self;
        let variables = model.variables().iter().filter_map(|variable| {
            // What the allocator has it has for itself.
            if BOOKS.contains(&model.name(variable.of).as_str()) {
                return None;
            }
            let size = model.size(variable.of);
            let name = names.number(variable.name.clone(), Language::default());
            let end = variable.at.checked_add(size.max(8))?;
            Some((variable.at..end, Holder { name, size }))
        });
        let variables: Vec<(Range<u64>, Holder)> = variables.collect();
        let holder = |number: u32| {
            let named = by_block.get(number as usize).copied()??;
            Some(Holder { name: named.name, size: named.size.into() })
        };
        Places::of(moment, &known.blocks, &variables, &holder, end)
    }
}

/// Types of glibc's own variables of malloc.
const BOOKS: [&str; 2] = ["malloc_state", "malloc_par"];

/// Libraries whose variables are their own business.
const NOT_OF_PROGRAMS: [&str; 5] =
    ["/libc.so", "/ld-linux", "/libstdc++.so", "/libc++.so", "/libc-"];

/// What has a form that only containers and trait objects have.
fn shapes(known: &Known, moment: &Moment<'_>, by_block: &[Option<Named>], end: Instant) -> Shapes {
    let [libstdcpp, libcpp, rust] = traits::marks(moment);
    let has = |library: &str| moment.images().iter().any(|image| image.path.contains(library));
    let languages =
        Languages { cpp: libstdcpp || has("libstdc++"), libcpp: libcpp || has("/libc++"), rust };
    if languages == Languages::default() {
        return Shapes { found: vec![None; known.blocks.len()], ..Shapes::default() };
    }
    let own = moment
        .images()
        .iter()
        .filter(|image| !NOT_OF_PROGRAMS.iter().any(|library| image.path.contains(library)));
    let ranges: Vec<Range<u64>> = own.flat_map(|image| image.data.iter().cloned()).collect();
    let is_named = |number: u32| by_block.get(number as usize).is_some_and(Option::is_some);
    search(moment, &known.blocks, &ranges, &is_named, languages, known.has_classes, end)
}

/// The declared types of all modules.
fn model(known: &Known, source: Source<'_>, end: Instant) -> Model {
    let mut model = Model::default();
    let text = source.maps();
    let maps = maps::parse(&text).unwrap_or_default();
    let mut symbols = Symbols::new();
    source.note(&mut symbols, &maps);
    let limits = Limits { entries: ENTRIES, types: TYPES, end };
    symbols.entries(&mut |sections, bias| {
        let wanted = known.names.iter().map(String::as_str);
        if let Some(module) = declared::read(sections, wanted, &limits) {
            model.add(module, bias);
        }
    });
    model
}

/// What a block is.
#[derive(Clone, Copy, Debug)]
struct Named {
    name: u32,
    certainty: Certainty,
    /// Bytes of a value, of which there may be several; 0 if there are no pointers in it, or it is larger than can be
    /// said: there may be tens of millions of these.
    size: u32,
}

fn size(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or_default()
}

/// Names, by their numbers.
#[derive(Default)]
struct Names {
    all: Vec<(String, Language)>,
    numbers: HashMap<(String, Language), u32>,
    /// By class.
    classes: Vec<u32>,
    by_type: HashMap<(TypeId, Form, u64), Option<(u32, u64)>>,
}

impl Names {
    fn number(&mut self, name: String, language: Language) -> u32 {
        let next = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let key = (name, language);
        match self.numbers.get(&key) {
            Some(known) => *known,
            None => {
                self.all.push(key.clone());
                self.numbers.insert(key, next);
                next
            }
        }
    }

    fn of(&mut self, known: &Known, model: &Model, spread: &Spread, number: u32) -> Option<Named> {
        let block = known.blocks.get(number);
        if let Some(class) = known.class_of(block) {
            let (name, size) = (*self.classes.get(class)?, size(block.size));
            return Some(Named { name, certainty: Certainty::Certain, size });
        }
        let key = spread.of(number)?;
        let known = match self.by_type.get(&key) {
            Some(known) => *known,
            None => {
                let found = self.declared(model, key);
                self.by_type.insert(key, found);
                found
            }
        };
        let (name, bytes) = known?;
        Some(Named { name, certainty: Certainty::Declared, size: size(bytes) })
    }

    fn declared(
        &mut self,
        model: &Model,
        (of, form, head): (TypeId, Form, u64),
    ) -> Option<(u32, u64)> {
        let name = model.name(of);
        if name.is_empty() {
            return None;
        }
        let name = match (form, head) {
            (Form::One, _) => name,
            (Form::Many, 0) => name + "[]",
            (Form::Many, head) => format!("{name}[] behind {head} bytes"),
        };
        let language = match model.language(of) {
            declared::Language::C => Language::C,
            declared::Language::Cpp => Language::Cpp,
            declared::Language::Rust => Language::Rust,
        };
        let size = if model.is_number(of) { 0 } else { model.size(of) };
        Some((self.number(name, language), size))
    }

    /// Names what was found by its form.
    fn shapes(
        &mut self,
        known: &Known,
        shapes: &Shapes,
        traits: &mut Traits<'_, '_>,
        by_block: &mut [Option<Named>],
    ) {
        let tables = traits.names(&shapes.tables);
        for ((block, shape), named) in known.blocks.all().iter().zip(&shapes.found).zip(by_block) {
            let Some(shape) = shape.filter(|_| named.is_none()) else { continue };
            let (name, language, size) = match shape {
                Shape::Text => ("text with length and room (std::string)", Language::Cpp, 0),
                Shape::Array => ("array with begin, end and room (std::vector)", Language::Cpp, 0),
                Shape::ListNode => ("node of a std::list", Language::Cpp, block.size),
                Shape::TreeNode => ("node of a std::map or std::set", Language::Cpp, block.size),
                Shape::HashNode => {
                    ("node of a std::unordered_map or _set", Language::Cpp, block.size)
                }
                Shape::HashTable => ("table of a std::unordered_map or _set", Language::Cpp, 0),
                Shape::DequeTable => ("table of a std::deque", Language::Cpp, 0),
                Shape::DequePiece => ("piece of a std::deque", Language::Cpp, 0),
                Shape::RustText => ("text with room and length (Rust String)", Language::Rust, 0),
                Shape::RustTable => {
                    ("table of a HashMap or HashSet (Rust)", Language::Rust, block.size)
                }
                Shape::RustArray => ("array with room and length (Rust Vec)", Language::Rust, 0),
                Shape::RustCounted => {
                    ("value with counts (Rust Rc or Arc)", Language::Rust, block.size)
                }
                Shape::Trait(table) => {
                    let name = tables.get(table as usize).map_or("", String::as_str);
                    (name, Language::Rust, block.size)
                }
            };
            let name = self.number(name.to_owned(), language);
            *named = Some(Named { name, certainty: Certainty::Shape, size: self::size(size) });
        }
    }

    fn name(&self, number: u32) -> String {
        self.all.get(number as usize).map_or_else(String::new, |(name, _)| name.clone())
    }
}

fn told(known: &Known, found: &Found, places: &Places) -> (TypedReport, Vec<ClassRow>) {
    let Found { names, by_block, disputed, missing, .. } = found;
    let mut report = TypedReport { disputed: *disputed, ..TypedReport::default() };
    report.missing = missing.map(str::to_owned);
    if places.is_over {
        report.missing.get_or_insert_with(|| "there was no time for all places".to_owned());
    }
    let mut classes: HashMap<(u32, Certainty), Amount> = HashMap::new();
    let mut by_place: HashMap<u32, Amount> = HashMap::new();
    for ((number, block), named) in (0..).zip(known.blocks.all()).zip(by_block) {
        report.in_use.add(block.size);
        match named.map(|named| (named.certainty, named.name)) {
            Some((Certainty::Certain, _)) => report.certain.add(block.size),
            Some((certainty, name)) => {
                let sum = match certainty {
                    Certainty::Shape => &mut report.shape,
                    _ => &mut report.declared,
                };
                sum.add(block.size);
                classes.entry((name, certainty)).or_default().add(block.size);
            }
            None => {
                if let Some(place) = places.place(number) {
                    report.place.add(block.size);
                    by_place.entry(place).or_default().add(block.size);
                }
            }
        }
    }
    let row = |((number, certainty), amount): ((u32, Certainty), Amount)| {
        let (name, language) = names.all.get(number as usize).cloned().unwrap_or_default();
        let Amount { bytes, blocks } = amount;
        ClassRow { name, language, certainty, blocks, bytes }
    };
    let rows = classes.into_iter().map(row).collect();
    let place = |(place, amount): (u32, Amount)| PlaceRow {
        name: places.name(place, &|name| names.name(name)),
        amount,
    };
    report.places = by_place.into_iter().map(place).collect();
    report
        .places
        .sort_by(|a, b| b.amount.bytes.cmp(&a.amount.bytes).then_with(|| a.name.cmp(&b.name)));
    report.places.truncate(PLACES);
    (report, rows)
}
