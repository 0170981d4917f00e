//! The list of runtimes, as data: how each is known, and what of its memory the hooks see.
//!
//! An allocator of a runtime is counted block by block only where each way in which a block is freed is seen.
//! What calls malloc for each block (`ruby_xmalloc`, `Perl_safesysmalloc`, Lua's `l_alloc`) is counted as that
//! malloc, once, with the callers of the runtime's function. The others are named, not counted: what they hold
//! is told in pages, and the setting or the tool that shows its blocks.
//!
//! - *Zend's* (`_emalloc` and about seventy more, one for each size): at the end of a request all of its heap is
//!   forgotten at once (`zend_mm_shutdown` unmaps or keeps chunks), without one call for a block; an extension
//!   may put another heap in its place (`zend_mm_set_heap`). To hook all these functions would also cost more
//!   than they do themselves. What it has at one moment `heapattach heap` tells block by block.
//! - *Garbage collectors* (V8, Java, .NET, Go, PyPy, Ruby's slots, Emacs): the collector frees by sweeping, no function
//!   is called for a block.
//! - *CPython's arenas*: a block of up to 512 bytes is taken and freed by macros within the interpreter.
//! - *BEAM's carriers*: a process's heap is freed as a whole, and blocks move between schedulers.
//! - *Perl's arenas*: heads and bodies of scalars are on lists of the interpreter, and taken by macros.

use heapattach_report::suppression::runtime::{EMACS, RUBY, Sign};

/// A kind of runtime.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// What it is called.
    pub name: &'static str,
    /// How it is known.
    pub sign: Sign,
    /// Another of the list whose functions it has, too.
    pub includes: Option<&'static str>,
    /// What is seen of its memory, and what not.
    pub seen: &'static str,
    /// Whether that is all.
    pub is_whole: bool,
    /// Settings of the environment with which each block is one of malloc's.
    pub settings: &'static [&'static str],
    /// What is to be typed to see more; `PID` stands for the process.
    pub more: &'static str,
    /// The switch that has names of generated code written.
    pub names: Option<&'static str>,
}

/// What most have in common.
const PLAIN: Kind = Kind {
    name: "",
    sign: Sign::Exports(""),
    includes: None,
    seen: "",
    is_whole: false,
    settings: &[],
    more: "",
    names: None,
};

/// All that are known.
pub const KINDS: [Kind; 13] = [
    Kind {
        name: "CPython",
        sign: Sign::Exports("Py_GetVersion"),
        seen: "objects of up to 512 bytes are not seen one by one: they lie in arenas",
        settings: &["PYTHONMALLOC=malloc", "PYTHONMALLOC=malloc_debug"],
        more: "PYTHONMALLOC=malloc heapattach run -- python3 ...",
        ..PLAIN
    },
    Kind {
        name: "PyPy",
        sign: Sign::Exports("PyPy_GetVersion"),
        seen: "objects of Python are not seen one by one: they lie in a nursery and arenas that PyPy maps or \
               allocates as a whole, and are freed by its collector; large objects and what extensions \
               allocate are seen",
        ..PLAIN
    },
    Kind {
        name: "Node.js",
        sign: Sign::Exports("node_module_register"),
        seen: "objects of JavaScript are not seen one by one: they lie in pages of V8's; buffers and \
               what native code allocates are seen",
        more: "node --heapsnapshot-signal=SIGUSR2 ...",
        names: Some("node --perf-basic-prof --interpreted-frames-native-stack ..."),
        ..PLAIN
    },
    Kind {
        name: "the Java virtual machine",
        sign: Sign::Exports("JNI_CreateJavaVM"),
        seen: "objects of Java are not seen: they lie in a heap that it maps as a whole; direct buffers and \
               what native code allocates are seen",
        more: "jcmd PID GC.class_histogram",
        names: Some("java -XX:+PreserveFramePointer ..., and then: jcmd PID Compiler.perfmap"),
        ..PLAIN
    },
    Kind {
        name: "Ruby",
        sign: RUBY,
        seen: "objects are not seen one by one: they lie in slots of pages; what finds no room in a slot is \
               malloc's, and seen",
        more: "ruby -robjspace ..., and in it: ObjectSpace.dump_all",
        ..PLAIN
    },
    Kind {
        name: "PHP",
        sign: Sign::Exports("zend_mm_gc"),
        seen: "blocks of Zend's allocator are not seen one by one: they lie in chunks that it maps, and \
               that it forgets at the end of a request (with USE_ZEND_ALLOC=0 in its environment each is \
               one of malloc's); what libraries allocate is seen",
        settings: &["USE_ZEND_ALLOC=0"],
        more: "heapattach heap -p PID",
        ..PLAIN
    },
    Kind {
        name: "Perl",
        sign: Sign::Exports("perl_construct"),
        seen: "strings and arrays are malloc's, and seen; heads and bodies of scalars are not seen one by one: \
               they lie in arenas of 4 KiB, which are never freed",
        ..PLAIN
    },
    Kind {
        name: "Emacs",
        sign: EMACS,
        seen: "conses, floats and strings are not seen one by one: they lie in blocks of many; buffers and \
               vectors are seen",
        more: "M-x memory-report",
        ..PLAIN
    },
    Kind {
        name: "LuaJIT",
        sign: Sign::Exports("luaJIT_setmode"),
        includes: Some("Lua"),
        seen: "objects are not seen one by one: they lie in memory that LuaJIT maps; what libraries \
               allocate is seen",
        ..PLAIN
    },
    Kind {
        name: "Lua",
        sign: Sign::Exports("lua_newstate"),
        seen: "each object is a block of realloc, and seen, unless the program gave Lua an allocator of its \
               own",
        is_whole: true,
        ..PLAIN
    },
    Kind {
        name: ".NET",
        sign: Sign::Exports("coreclr_initialize"),
        seen: "objects are not seen one by one: they lie in a heap that it maps; what native code \
               allocates is seen",
        more: "dotnet-gcdump collect -p PID",
        names: Some("DOTNET_PerfMapEnabled=1 dotnet ..."),
        ..PLAIN
    },
    Kind {
        name: "BEAM",
        sign: Sign::Exports("enif_alloc"),
        seen: "terms and process heaps are not seen one by one: they lie in carriers that it maps; \
               what drivers and NIFs allocate by malloc is seen",
        more: "heapattach run -- erl +Mea min ...",
        ..PLAIN
    },
    Kind {
        name: "Go",
        sign: Sign::GoNote,
        seen: "what C code in it allocates is counted here; the heap of Go, where its runtime keeps a profile of it, is a \
               report beside this one",
        more: "heapattach heap -p PID --view go",
        ..PLAIN
    },
];
