//! One interpreter in the target: which version, where its things are, and what to tell the payload.

use std::ops::Range;

use heapattach_abi::python::Orders;

use super::{
    cold_part::cold_part,
    java::{self, Java},
    layout::{Layout, LayoutError, TABLE_WORDS, layout},
    lua, luajit, perl, php, ruby, v8,
};
use crate::hook::survey::{Loaded, Survey};
use crate::module::python_marks::Marks;
use heapattach_process::{
    addr::RemoteAddr, memory::Memory, proc::maps::Mapping, python_frame::Language,
};

/// Before this version there is no word that tells it.
const FIRST_TOLD: &str = "3.10 or older";

/// What is said behind the version of builds without a global lock.
const FREE_THREADED: &str = " (free-threaded: not tried)";

/// What there is of an interpreter in a target.
#[derive(Clone, Debug)]
pub enum Python {
    /// Its functions can be named.
    Readable(Box<Interpreter>),
    /// They cannot.
    Unreadable(Unreadable),
}

/// An interpreter that we can read.
#[derive(Clone, Debug)]
pub struct Interpreter {
    /// As people write it.
    pub version: String,
    /// The module it is in.
    pub module: String,
    /// What it has, and where.
    pub(super) form: Form,
    eval: Range<RemoteAddr>,
    /// A part of it that lies elsewhere.
    cold: Option<Range<RemoteAddr>>,
}

/// The kinds of interpreters; the payload's orders are complete but for the process.
#[derive(Clone, Debug)]
pub(super) enum Form {
    /// CPython: where its things are, and the type of code objects.
    Python(Layout, Option<RemoteAddr>),
    /// PHP.
    Php(Orders),
    /// Ruby.
    Ruby(Orders),
    /// Perl.
    Perl(Orders),
    /// Lua.
    Lua(Orders),
    /// Lua as LuaJIT has it.
    LuaJit(Orders),
    /// Java.
    Java(Box<Java>),
    /// V8.
    V8(Orders),
}

/// What there is of one that has no table of its own structures.
#[derive(Debug)]
pub(super) struct Found {
    pub version: String,
    /// Why its functions cannot be named, or what the payload is to be told.
    pub orders: Result<Orders, &'static str>,
}

/// An interpreter that we cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Of which language.
    pub language: Language,
    /// As people write it.
    pub version: String,
    /// The module it is in.
    pub module: String,
    /// Why not.
    pub why: String,
}

impl Interpreter {
    /// What the payload is to be told, in a process that knows itself by this number, and of whose C library each call
    /// is hooked by which pages may go, if it lies anywhere.
    pub fn orders(&self, process: u64, is_exact: bool, libc: Range<u64>) -> Orders {
        let (direct, direct_end) = (libc.start, libc.end);
        match &self.form {
            // To tell apart code that takes the place of other code is one look more at every frame.
            Form::Python(layout, _) => Orders {
                process,
                tells_apart: u64::from(!is_exact),
                direct,
                direct_end,
                ..layout.orders
            },
            Form::Php(orders)
            | Form::Ruby(orders)
            | Form::Perl(orders)
            | Form::Lua(orders)
            | Form::LuaJit(orders)
            | Form::V8(orders) => Orders { process, direct, direct_end, ..*orders },
            Form::Java(java) => Orders { process, direct, direct_end, ..java.orders },
        }
    }

    /// Of which language it is.
    pub fn language(&self) -> Language {
        match self.form {
            Form::Python(..) => Language::Python,
            Form::Php(_) => Language::Php,
            Form::Ruby(_) => Language::Ruby,
            Form::Perl(_) => Language::Perl,
            Form::Lua(_) | Form::LuaJit(_) => Language::Lua,
            Form::Java(_) => Language::Java,
            Form::V8(_) => Language::JavaScript,
        }
    }

    /// What is to be told of Java besides, if that is what it is.
    pub(crate) fn java(&self) -> Option<&Java> {
        match &self.form {
            Form::Java(java) => Some(java),
            Form::Python(..)
            | Form::Php(_)
            | Form::Ruby(_)
            | Form::Perl(_)
            | Form::Lua(_)
            | Form::LuaJit(_)
            | Form::V8(_) => None,
        }
    }

    /// Whether a stack without a native frame of its loop is none of a thread that runs scripts.
    pub(crate) fn needs_loop(&self) -> bool {
        matches!(self.form, Form::Php(_))
    }

    /// Whether a native frame that returns to this address is the loop that runs Python code.
    pub fn is_loop(&self, address: RemoteAddr) -> bool {
        let call = RemoteAddr::new(address.get().saturating_sub(1));
        self.eval.contains(&call) || self.cold.as_ref().is_some_and(|cold| cold.contains(&call))
    }
}

impl Python {
    /// With what a compiler put elsewhere of its loop.
    pub(super) fn with_cold_part(mut self, memory: &Memory, maps: &[Mapping<'_>]) -> Self {
        if let Self::Readable(found) = &mut self
            && !found.eval.is_empty()
        {
            found.cold = cold_part(memory, maps, &found.eval);
        }
        self
    }
}

/// The interpreter that is loaded, if one is, and the module that it is in; of several the first.
pub(crate) fn recognise<'s>(
    survey: &'s Survey,
    memory: &Memory,
    maps: &[Mapping<'_>],
) -> Option<(Python, &'s Loaded)> {
    let in_module = |loaded: &Loaded| {
        let name = || String::from_utf8_lossy(&loaded.link.name).escape_debug().to_string();
        if loaded.module.python.runtime.is_some() {
            return Some(of_marks(&loaded.module.python, name(), memory));
        }
        let (php, ruby) = (&loaded.module.php, &loaded.module.ruby);
        if let Some(found) = php::recognise(php, memory, maps) {
            return Some(of(found, Form::Php, Language::Php, &php.loop_body, name()));
        }
        if let Some((found, eval)) = ruby::recognise(ruby, memory, maps) {
            return Some(of(found, Form::Ruby, Language::Ruby, &eval, name()));
        }
        let perl = &loaded.module.perl;
        if let Some(found) = perl::recognise(perl, survey, memory, maps) {
            return Some(of(found, Form::Perl, Language::Perl, &perl.loop_body, name()));
        }
        if let Some(found) = java::recognise(&loaded.module.java, memory) {
            return Some(of_machine(found, name()));
        }
        if let Some(found) = v8::recognise(&loaded.module.v8, memory) {
            let nowhere = RemoteAddr::new(0)..RemoteAddr::new(0);
            return Some(of(found, Form::V8, Language::JavaScript, &nowhere, name()));
        }
        if let Some((found, machine)) = luajit::recognise(&loaded.module.lua, memory, maps) {
            return Some(of(found, Form::LuaJit, Language::Lua, &machine, name()));
        }
        let (found, eval) = lua::recognise(&loaded.module.lua, memory, maps)?;
        Some(of(found, Form::Lua, Language::Lua, &eval, name()))
    };
    survey.loaded.iter().find_map(|loaded| Some((in_module(loaded)?, loaded)))
}

fn of(
    found: Found,
    form: fn(Orders) -> Form,
    language: Language,
    eval: &Range<RemoteAddr>,
    module: String,
) -> Python {
    let version = found.version;
    match found.orders {
        Ok(orders) => {
            let (form, eval) = (form(orders), eval.clone());
            Python::Readable(Box::new(Interpreter { version, module, form, eval, cold: None }))
        }
        Err(why) => {
            let why = why.to_owned();
            Python::Unreadable(Unreadable { language, version, module, why })
        }
    }
}

fn of_machine(found: java::Machine, module: String) -> Python {
    let version = found.version;
    match found.found {
        Ok(java) => Python::Readable(Box::new(Interpreter {
            version,
            module,
            form: Form::Java(java),
            eval: RemoteAddr::new(0)..RemoteAddr::new(0),
            cold: None,
        })),
        Err(why) => {
            let (language, why) = (Language::Java, why.to_owned());
            Python::Unreadable(Unreadable { language, version, module, why })
        }
    }
}

fn of_marks(marks: &Marks, module: String, memory: &Memory) -> Python {
    let version = marks.version.and_then(|at| memory.word(at).ok());
    let told = version.map_or_else(|| FIRST_TOLD.to_owned(), written);
    let refuse = |why: &str| {
        let (version, why, module) = (told.clone(), why.to_owned(), module.clone());
        Python::Unreadable(Unreadable { language: Language::Python, version, module, why })
    };
    let (Some(runtime), Some(version)) = (marks.runtime, version) else {
        return refuse("only functions of CPython 3.11 and later can be named");
    };
    let [_, _, minor, major, ..] = version.to_le_bytes();
    if marks.eval.is_empty() {
        return refuse("it does not say where its loop is");
    }
    let mut table = [0; TABLE_WORDS];
    let words = memory.read_vec(runtime, TABLE_WORDS * 8).unwrap_or_default();
    let (words, _) = words.as_chunks::<8>();
    table.iter_mut().zip(words).for_each(|(word, bytes)| *word = u64::from_le_bytes(*bytes));
    match layout(if major == 3 { minor } else { 0 }, &table) {
        Ok(mut layout) => {
            layout.orders.runtime = runtime.get();
            let version = if layout.is_free_threaded() { told + FREE_THREADED } else { told };
            Python::Readable(Box::new(Interpreter {
                version,
                module,
                form: Form::Python(layout, marks.code_type),
                eval: marks.eval.clone(),
                cold: None,
            }))
        }
        Err(LayoutError::Unknown) => refuse("its structures are not known to this heapattach"),
        Err(LayoutError::Nonsense) => refuse("what it says of its structures makes no sense"),
    }
}

/// `3.12.1` of `0x030c01f0`.
fn written(version: u64) -> String {
    let [_, micro, minor, major, ..] = version.to_le_bytes();
    format!("{major}.{minor}.{micro}")
}

#[cfg(test)]
pub mod tests {
    use super::{
        super::layout::tests::{of_3_12, table},
        *,
    };

    /// An interpreter for other tests.
    pub fn some() -> Interpreter {
        Interpreter {
            version: "3.12.1".to_owned(),
            module: "libpython3.12.so".to_owned(),
            form: Form::Python(of_3_12(), Some(RemoteAddr::new(0x7000))),
            eval: RemoteAddr::new(0x1000)..RemoteAddr::new(0x2000),
            cold: Some(RemoteAddr::new(0x5000)..RemoteAddr::new(0x6000)),
        }
    }

    #[test]
    fn the_loop_is_known_by_what_is_called_from_it() {
        let at = |address| some().is_loop(RemoteAddr::new(address));
        assert!(at(0x1001) && at(0x2000) && at(0x5001));
        assert!(!at(0x1000) && !at(0x2001) && !at(0));
    }

    #[test]
    fn a_version_is_written_as_people_do() {
        assert_eq!(written(0x030c_01f0), "3.12.1");
    }

    #[test]
    fn an_interpreter_without_a_version_is_told_and_left_alone() {
        let own =
            heapattach_process::proc::Process::open(std::process::id().cast_signed()).unwrap();
        let memory = Memory::open(&own).unwrap();
        let marks = Marks { runtime: Some(RemoteAddr::new(8)), ..Marks::default() };
        let Python::Unreadable(why) = of_marks(&marks, "libpython".to_owned(), &memory) else {
            panic!("nothing is known of it");
        };
        assert_eq!(why.version, FIRST_TOLD);
    }

    #[test]
    fn a_build_without_a_global_lock_is_named_so() {
        let own =
            heapattach_process::proc::Process::open(std::process::id().cast_signed()).unwrap();
        let memory = Memory::open(&own).unwrap();
        let place = |words: &[u64]| RemoteAddr::new(words.as_ptr().addr() as u64);
        let version = [0x030d_01f0];
        for (is_free_threaded, told) in [(0, "3.13.1"), (1, "3.13.1 (free-threaded: not tried)")] {
            let mut table = table();
            table[2] = is_free_threaded;
            let marks = Marks {
                runtime: Some(place(&table)),
                version: Some(place(&version)),
                eval: RemoteAddr::new(1)..RemoteAddr::new(2),
                ..Marks::default()
            };
            let Python::Readable(found) = of_marks(&marks, "libpython".to_owned(), &memory) else {
                panic!("it describes itself");
            };
            assert_eq!(found.version, told);
        }
    }
}
