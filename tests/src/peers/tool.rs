//! The tools: what each is, and how a program comes under it.

use std::ffi::OsString;

use super::{dress::Dress, kit::Kit, peer::Peer};

/// One way to run a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// The same allocator without profiling, if it brings one.
    pub(super) own_allocator: Option<&'static str>,
    pub(super) way: Way,
    /// It is given one in so many operations, as it makes a program that many times slower.
    pub(super) share: u64,
}

/// What is done to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Nothing.
    Plain,
    /// A library that only jumps on is preloaded.
    JumpOnly,
    /// A session of heapattach with these options, on and off.
    Session(&'static [&'static str]),
    /// heaptrack's library is preloaded; its records are thrown away.
    Heaptrack,
    /// heaptrack attaches.
    HeaptrackAttach,
    /// jemalloc is preloaded, with these settings.
    Jemalloc(&'static str),
    /// tcmalloc is preloaded, and samples so.
    Tcmalloc(&'static str),
    /// The same, with the heap profiler.
    HeapProfiler,
    /// A tool of valgrind.
    Valgrind(&'static str),
    /// memray runs the script.
    Memray,
    /// memray attaches.
    MemrayAttach,
}

/// The plain program.
pub(super) const PLAIN: &str = "plain program";
/// The same, another process: what differs here is noise.
pub(super) const PLAIN_AGAIN: &str = "plain program, another process";
/// The same process again: what differs here is noise, too.
pub(super) const SAME_AGAIN: &str = "plain program, the same process";
pub(super) const SAMPLED: &str = "heapattach";
pub(super) const ALL: &str = "heapattach --all";
/// The same in the part that writes recordings otherwise.
pub(super) const NO_FILE: &str = "heapattach --all, no file";
/// The same without names of Python functions, which only memray has besides us.
const ALL_NATIVE: &str = "heapattach --all --python off";
pub(super) const JEMALLOC_SAMPLED: &str = "jemalloc, sampled";
pub(super) const TCMALLOC_SAMPLED: &str = "tcmalloc, sampled";
/// What records all without loss.
pub(super) const ALL_OPTIONS: &[&str] = &["--all", "--on-full=wait", "--ring=8MiB"];
/// So rarely that there is only counting.
const COUNT_OPTIONS: &[&str] = &["--every=1TiB"];

const fn tool(name: &'static str, way: Way) -> Tool {
    Tool { name, own_allocator: None, way, share: 1 }
}

const fn allocator(name: &'static str, way: Way, own: &'static str, share: u64) -> Tool {
    Tool { name, own_allocator: Some(own), way, share }
}

/// All that a program's work is measured under.
pub(super) const TOOLS: [Tool; 21] = [
    tool(PLAIN, Way::Plain),
    tool(PLAIN_AGAIN, Way::Plain),
    tool("wrapper that only jumps", Way::JumpOnly),
    tool("heapattach, counting only", Way::Session(COUNT_OPTIONS)),
    tool(SAMPLED, Way::Session(&[])),
    tool("jemalloc", Way::Jemalloc("prof:false")),
    allocator(JEMALLOC_SAMPLED, Way::Jemalloc("prof:true,lg_prof_sample:19"), "jemalloc", 1),
    tool("tcmalloc", Way::Tcmalloc("0")),
    allocator(TCMALLOC_SAMPLED, Way::Tcmalloc("524288"), "tcmalloc", 1),
    tool(ALL, Way::Session(ALL_OPTIONS)),
    tool("heapattach --all --on-full drop", Way::Session(&["--all", "--ring=8MiB"])),
    tool(ALL_NATIVE, Way::Session(&["--all", "--on-full=wait", "--ring=8MiB", "--python=off"])),
    tool("heaptrack", Way::Heaptrack),
    tool("heaptrack -p", Way::HeaptrackAttach),
    allocator("jemalloc, every block", Way::Jemalloc("prof:true,lg_prof_sample:0"), "jemalloc", 20),
    allocator("gperftools heap profiler", Way::HeapProfiler, "tcmalloc", 50),
    Tool { share: 10, ..tool("memray run --native", Way::Memray) },
    Tool { share: 10, ..tool("memray attach --native", Way::MemrayAttach) },
    Tool { share: 10, ..tool("valgrind (no tool)", Way::Valgrind("none")) },
    Tool { share: 20, ..tool("valgrind massif", Way::Valgrind("massif")) },
    Tool { share: 20, ..tool("valgrind dhat", Way::Valgrind("dhat")) },
];

/// Where it stands in tables; those that are not in the race come last.
pub(super) fn rank(name: &str) -> usize {
    let names = TOOLS.iter().map(|tool| tool.name);
    let mut names = [PLAIN, SAME_AGAIN].into_iter().chain(names.skip(1));
    names.position(|one| one == name).unwrap_or(usize::MAX)
}

impl Tool {
    /// Whether it is for Python alone.
    pub(super) fn is_for_python(&self) -> bool {
        matches!(self.way, Way::Memray | Way::MemrayAttach) || self.name == ALL_NATIVE
    }

    /// Whether it makes a program many times slower.
    pub(super) fn is_slow(&self) -> bool {
        self.share > 1
    }

    /// What a program is started with.
    pub(super) fn dress(&self, kit: &Kit) -> Result<Dress, String> {
        let mut dress = Dress::default();
        match self.way {
            Way::Plain | Way::Session(_) | Way::HeaptrackAttach | Way::MemrayAttach => (),
            Way::JumpOnly => dress = Dress::preload(kit.jump_only.as_ref()?),
            Way::Heaptrack => {
                dress = Dress::preload(kit.heaptrack_preload.as_ref()?);
                // Opened for both, it does not end with the first process that writes.
                let pipe = dress.pipe_to("exec cat <>\"$1\" >/dev/null")?;
                dress = dress.with("DUMP_HEAPTRACK_OUTPUT", pipe);
            }
            Way::Jemalloc(settings) => {
                dress = Dress::preload(kit.jemalloc.as_ref()?).with("MALLOC_CONF", settings);
            }
            Way::Tcmalloc(sample) => {
                dress = Dress::preload(kit.tcmalloc.as_ref()?);
                dress = dress.with("TCMALLOC_SAMPLE_PARAMETER", sample);
            }
            Way::HeapProfiler => {
                dress = Dress::preload(kit.tcmalloc.as_ref()?);
                let prefix = dress.folder()?.join("profile");
                dress = dress.with("HEAPPROFILE", prefix);
            }
            Way::Valgrind(tool) => {
                let folder = dress.folder()?;
                let mut words: Vec<OsString> = vec![kit.valgrind.as_ref()?.into()];
                words.extend(["-q".into(), format!("--tool={tool}").into()]);
                if tool != "none" {
                    let mut file = OsString::from(format!("--{tool}-out-file="));
                    file.push(folder.join("out"));
                    words.push(file);
                }
                dress.prefix = words;
            }
            Way::Memray => {
                kit.memray.as_ref()?;
                let file = dress.folder()?.join("memray");
                let words = ["-m", "memray", "run", "--native", "-q", "-f", "-o"];
                dress.python = words.map(OsString::from).into_iter().chain([file.into()]).collect();
            }
        }
        Ok(dress)
    }

    /// Has a peer attach, to stay until what it returns is dropped.
    pub(super) fn attach(&self, kit: &Kit, pid: i32) -> Result<Option<Peer>, String> {
        match self.way {
            Way::HeaptrackAttach => Peer::heaptrack(kit, pid).map(Some),
            Way::MemrayAttach => Peer::memray(kit, pid).map(Some),
            _ => Ok(None),
        }
    }
}
