//! Which frames to look past: allocators, and what merely passes a request on to one.
//!
//! A report that begins with `operator new` does not help the user. No frame is taken out of a stack
//! here: only
//! which of them *caused* the allocation is told.

mod path;
#[rustfmt::skip]
mod rules;

use heapattach_text::{
    glob,
    module_name::{JAVA, is_generated, is_script},
};

use crate::FrameReport;

/// The value of `--hide-frames` that does without the built-in rules.
const NONE: &str = "none";

/// What part a frame plays for who caused an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It passes the request on.
    Hidden,
    /// It is an interpreter's: it passes the request on, if the code that it interprets is known.
    Interpreter,
    /// It is code of a script: interpreted, or generated from one.
    Script,
    /// It is code of the program.
    Other,
}

/// Which of the frames with these parts, innermost first, caused the allocation; if all are hidden,
/// the outermost. 0 if there is none.
pub fn cause(mut parts: impl Iterator<Item = Part>) -> usize {
    let mut search = Search::default();
    parts.find_map(|part| search.take(part)).unwrap_or_else(|| search.end())
}

/// A search for the frame that caused an allocation, from the innermost one on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Search {
    /// How many frames were looked at.
    seen: usize,
    /// The first one of an interpreter: until its code is met, it is not known whether to look past it.
    interpreter: Option<usize>,
    /// The first one behind that which is neither.
    other: Option<usize>,
}

impl Search {
    /// Looks at the next frame; answers which one it is, if that is known now.
    pub fn take(&mut self, part: Part) -> Option<usize> {
        let at = self.seen;
        self.seen += 1;
        match part {
            Part::Hidden => {}
            Part::Interpreter => self.interpreter = self.interpreter.or(Some(at)),
            Part::Other if self.interpreter.is_none() => return Some(at),
            Part::Other => self.other = self.other.or(Some(at)),
            Part::Script => return self.other.or(Some(at)),
        }
        None
    }

    /// There are no more.
    pub fn end(self) -> usize {
        self.interpreter.unwrap_or(self.seen.saturating_sub(1))
    }
}

/// The rules of one session.
#[derive(Clone, Debug)]
pub struct Hidden {
    functions: &'static [&'static str],
    rust: &'static [&'static str],
    files: &'static [&'static str],
    modules: &'static [&'static str],
    libraries: &'static [&'static str],
    interpreters: &'static [&'static str],
    globs: Vec<String>,
}

impl Default for Hidden {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl Hidden {
    /// The built-in rules and these patterns; without the former if `none` is among the latter.
    pub fn new(globs: &[String]) -> Self {
        let is_ours = !globs.iter().any(|glob| glob == NONE);
        let ours = |rules: &'static [&'static str]| if is_ours { rules } else { &[] };
        let (functions, rust) = (ours(rules::FUNCTIONS), ours(rules::RUST));
        let (files, modules) = (ours(rules::FILES), ours(rules::MODULES));
        let (libraries, interpreters) = (ours(rules::LIBRARIES), ours(rules::INTERPRETERS));
        let own = globs.iter().filter(|glob| *glob != NONE && !glob.is_empty());
        let globs = own.cloned().collect();
        Self { functions, rust, files, modules, libraries, interpreters, globs }
    }

    /// Which of `frames`, innermost first, caused the allocation: the first that is not hidden. If
    /// all are, the outermost: it is nearest to the code that is to blame. 0 if there is none.
    pub fn cause(&self, frames: &[FrameReport]) -> usize {
        cause(frames.iter().map(|frame| self.part(frame)))
    }

    /// What part a frame plays for who caused an allocation.
    pub fn part(&self, frame: &FrameReport) -> Part {
        let module = frame.module.rsplit('/').next().unwrap_or_default();
        let is_interpreter = || self.interpreters.iter().any(|rule| glob::matches(rule, module));
        match () {
            () if self.hides(frame) => Part::Hidden,
            () if frame.module == JAVA => self.part_of_generated(frame),
            () if is_script(&frame.module) => self.part_of_script(frame),
            () if is_generated(&frame.module) => self.part_of_generated(frame),
            () if is_interpreter() => Part::Interpreter,
            () => Part::Other,
        }
    }

    /// The same of code that an interpreter has frames of: what comes with the language passes requests on.
    fn part_of_script(&self, frame: &FrameReport) -> Part {
        let is_languages = frame.file.as_ref().is_some_and(|file| {
            rules::SOURCES_OF_LANGUAGES.iter().any(|rule| glob::matches(rule, file))
        });
        if is_languages && !self.interpreters.is_empty() { Part::Interpreter } else { Part::Script }
    }

    /// The same of generated code: of what has no name nothing more is known than of an interpreter's own.
    fn part_of_generated(&self, frame: &FrameReport) -> Part {
        if self.interpreters.is_empty() {
            return Part::Other;
        }
        let is_any = |rules: &[&str], text: &str| rules.iter().any(|r| glob::matches(r, text));
        let is_engines = |name: &String| is_any(rules::ENGINES, name);
        let is_languages = |name: &String| is_any(rules::OF_LANGUAGES, name);
        let of_language = |file: &String| is_any(rules::SOURCES_OF_LANGUAGES, file);
        match &frame.function {
            None => Part::Interpreter,
            Some(name) if is_engines(name) || is_languages(name) => Part::Interpreter,
            Some(_) if frame.file.as_ref().is_some_and(of_language) => Part::Interpreter,
            Some(_) => Part::Script,
        }
    }

    /// Whether to look past a frame.
    pub fn hides(&self, frame: &FrameReport) -> bool {
        let module = frame.module.rsplit('/').next().unwrap_or_default();
        if is_script(&frame.module) || is_generated(&frame.module) {
            // Their names are none of the functions that the rules are made for.
            let name = frame.function.as_deref().unwrap_or_default();
            return self.globs.iter().any(|own| glob::matches(own, name));
        }
        if self.libraries.iter().any(|rule| glob::matches(rule, module)) {
            return true;
        }
        let in_library = |file: &String| self.files.iter().any(|rule| glob::matches(rule, file));
        if frame.file.as_ref().is_some_and(in_library) {
            return true;
        }
        let Some(name) = &frame.function else {
            return self.modules.iter().any(|rule| glob::matches(rule, module));
        };
        let path = path::path(name);
        let rust = self.rust.iter().filter(|_| !path::has_arguments(name));
        self.functions.iter().chain(rust).any(|rule| glob::matches(rule, &path))
            || self.globs.iter().any(|own| glob::matches(own, &path) || glob::matches(own, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(names: &[&str]) -> Vec<FrameReport> {
        let frame = |name: &&str| match name.split_once('+') {
            Some((module, _)) => FrameReport { module: module.to_string(), ..Default::default() },
            None => FrameReport { function: Some(name.to_string()), ..Default::default() },
        };
        names.iter().map(frame).collect()
    }

    fn cause<'n>(hidden: &Hidden, names: &[&'n str]) -> &'n str {
        names[hidden.cause(&frames(names))]
    }

    #[test]
    fn the_first_frame_that_wanted_the_memory_is_the_cause() {
        let stacks: &[&[&str]] = &[
            &["malloc", "operator new(unsigned long)", "app::Cache::add(int)", "main"],
            &[
                "std::__new_allocator<int>::allocate(unsigned long, void const*)",
                "std::vector<int, std::allocator<int> >::_M_allocate(unsigned long)",
                "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int&&)",
                "std::vector<int, std::allocator<int> >::push_back(int&&)",
                "app::fill(std::vector<int, std::allocator<int> >&)",
                "main",
            ],
            &[
                "__rdl_alloc",
                "__rust_alloc",
                "alloc::alloc::alloc",
                "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
                "alloc::raw_vec::RawVec<T,A>::grow_one",
                "<alloc::vec::Vec<T> as core::iter::Extend<T>>::extend",
                "hashbrown::raw::RawTable<T,A>::reserve_rehash",
                "<app::Cache as core::clone::Clone>::clone",
                "app::main",
            ],
            &["je_malloc_default", "ztrymalloc_usable_internal", "zmalloc", "createObject", "main"],
            &["/usr/lib/libc.so.6+1", "g_malloc0", "g_strdup", "gtk_thing_new", "main"],
            &["_PyMem_RawMalloc", "PyObject_Malloc", "PyList_New", "main"],
            &["/usr/lib/libjemalloc.so.2+1", "strdup", "/opt/app/libplugin.so+7", "main"],
        ];
        let causes = [
            "app::Cache::add(int)",
            "app::fill(std::vector<int, std::allocator<int> >&)",
            "<app::Cache as core::clone::Clone>::clone",
            "createObject",
            "gtk_thing_new",
            "PyList_New",
            "/opt/app/libplugin.so+7",
        ];
        for (stack, expected) in stacks.iter().zip(causes) {
            assert_eq!(cause(&Hidden::default(), stack), expected);
        }
    }

    #[test]
    fn a_call_inlined_from_a_standard_library_is_hidden_whatever_its_name() {
        let mut frames = frames(&["push_back", "app::fill()", "main"]);
        assert_eq!(Hidden::default().cause(&frames), 0);
        frames[0].file = Some("/usr/include/c++/14/bits/stl_vector.h".to_owned());
        assert_eq!(Hidden::default().cause(&frames), 1);
        assert_eq!(Hidden::new(&["none".to_owned()]).cause(&frames), 0);
    }

    #[test]
    fn where_all_are_hidden_the_outermost_is_told() {
        let hidden = Hidden::default();
        assert_eq!(cause(&hidden, &["malloc", "strdup"]), "strdup");
        assert_eq!(hidden.cause(&[]), 0);
    }

    #[test]
    fn an_interpreter_is_looked_past_where_its_code_is_known() {
        let parts = |text: &str| {
            super::cause(text.chars().map(|letter| match letter {
                'h' => Part::Hidden,
                'i' => Part::Interpreter,
                'p' => Part::Script,
                _ => Part::Other,
            }))
        };
        assert_eq!(parts("hhipip"), 3);
        assert_eq!(parts("hoip"), 1, "an extension that was called");
        assert_eq!(parts("hiioip"), 3, "the same by way of the interpreter");
        assert_eq!(parts("hiio"), 1, "nothing is known of its code");
        assert_eq!(parts("hh"), 1);
        assert_eq!(parts(""), 0);
    }

    #[test]
    fn a_python_function_is_hidden_only_if_the_user_says_so() {
        let frame = FrameReport {
            module: heapattach_text::module_name::PYTHON.to_owned(),
            function: Some("getline".to_owned()),
            file: Some("/usr/lib/python3.11/linecache.py".to_owned()),
            ..FrameReport::default()
        };
        assert!(!Hidden::default().hides(&frame));
        assert!(Hidden::new(&["getl*".to_owned()]).hides(&frame));
        let of = |module: &str| FrameReport {
            module: module.to_owned(),
            function: Some("PyList_New".to_owned()),
            ..FrameReport::default()
        };
        for (module, part) in [
            ("/usr/bin/python3.11", Part::Interpreter),
            ("/opt/lib/libpython3.12.so.1.0", Part::Interpreter),
            ("/usr/bin/php8.2", Part::Interpreter),
            ("/usr/sbin/php-fpm8.2", Part::Interpreter),
            ("/usr/lib/php/20220829/mbstring.so", Part::Other),
            ("/opt/lib/_numpy.cpython-311-x86_64-linux-gnu.so", Part::Other),
        ] {
            assert_eq!(Hidden::default().part(&of(module)), part, "{module}");
        }
    }

    #[test]
    fn generated_code_is_looked_past_up_to_the_function_of_the_program() {
        let part = |function: Option<&str>, file: Option<&str>| {
            Hidden::default().part(&FrameReport {
                module: "[anonymous]".to_owned(),
                function: function.map(str::to_owned),
                file: file.map(str::to_owned),
                ..FrameReport::default()
            })
        };
        for (function, file, expected) in [
            (Some("holdBuffers"), Some("/srv/a.js"), Part::Script),
            (Some("malloc"), Some("/srv/a.js"), Part::Script),
            (Some("allocUnsafeSlow"), Some("node:buffer"), Part::Interpreter),
            (Some("Builtin:ArrayPush"), None, Part::Interpreter),
            (Some("app.Leak.inner()"), None, Part::Script),
            (Some("java.util.HashMap.put(java.lang.Object)"), None, Part::Interpreter),
            (Some("I2C/C2I adapters"), None, Part::Interpreter),
            (None, None, Part::Interpreter),
        ] {
            assert_eq!(part(function, file), expected, "{function:?}");
        }
        for (file, expected) in
            [("/srv/a.js", Part::Script), ("node:internal/buffer", Part::Interpreter)]
        {
            let frame = FrameReport {
                module: heapattach_text::module_name::JAVASCRIPT.to_owned(),
                function: Some("createUnsafeBuffer".to_owned()),
                file: Some(file.to_owned()),
                ..FrameReport::default()
            };
            assert_eq!(Hidden::default().part(&frame), expected, "{file}");
        }
        let nothing = FrameReport { module: "[anon:v8]".to_owned(), ..FrameReport::default() };
        assert_eq!(Hidden::new(&["none".to_owned()]).part(&nothing), Part::Other);
    }

    #[test]
    fn a_stripped_library_that_allocates_for_its_callers_is_looked_past() {
        let frame = |module: &str, function: &str| FrameReport {
            module: format!("/usr/lib/x86_64-linux-gnu/{module}"),
            function: (!function.is_empty()).then(|| function.to_owned()),
            ..FrameReport::default()
        };
        for (library, function, cause) in [
            ("libapr-1.so.0.7.2", "apr_palloc", "handle"),
            ("libglib-2.0.so.0.7400.6", "g_slice_alloc", "handle"),
            ("libjansson.so.4.14.0", "json_loads", "handle"),
            ("libtalloc.so.2.4.0", "talloc_free", "handle"),
            ("libsqlite3.so.0.8.6", "sqlite3_prepare_v2", "sqlite3_prepare_v2"),
            ("libplugin.so", "plug", ""),
        ] {
            let frames =
                [frame("libc.so.6", "malloc"), frame(library, ""), frame(library, function)];
            let frames = [&frames[..], &[frame("app", "handle")]].concat();
            let found = &frames[Hidden::default().cause(&frames)];
            assert_eq!(found.function.as_deref().unwrap_or_default(), cause, "{library}");
            let all = Hidden::new(&["none".to_owned()]);
            assert_eq!(all.cause(&frames), 0, "{library}");
        }
    }

    #[test]
    fn users_add_patterns_and_do_without_ours() {
        let stack = ["malloc", "pool::Pool<int>::get(int)", "app::run()", "main"];
        let with = |globs: &[&str]| {
            cause(&Hidden::new(&globs.iter().map(ToString::to_string).collect::<Vec<_>>()), &stack)
        };
        assert_eq!(with(&[]), "pool::Pool<int>::get(int)");
        assert_eq!(with(&["pool::*"]), "app::run()");
        assert_eq!(with(&["pool::Pool<int>*", "app::*"]), "main");
        assert_eq!(with(&["none"]), "malloc");
        assert_eq!(with(&["none", "mal*"]), "pool::Pool<int>::get(int)");
    }

    #[test]
    fn a_program_that_only_sounds_like_an_allocator_is_not_hidden() {
        for name in [
            "main",
            "reserve",
            "core::Cache::add(int) const",
            "str::f()",
            "operators(int)",
            "stdin_read",
            "user",
        ] {
            assert_eq!(cause(&Hidden::default(), &[name, "_start"]), name);
        }
    }
}
