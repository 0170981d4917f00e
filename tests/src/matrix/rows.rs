//! The guide's table of what can be attached to: the promises, and what proves each.
//!
//! The table is read by people, this list by tests: both must have the same rows. What the command
//! says where it refuses stands in the table, too.

use std::{collections::BTreeSet, fs, path::Path};

use super::Expected;

/// A refused target.
pub const DLOPEN_STATIC: &str = "`--loader dlopen`: static programs";
/// A refused target.
pub const DLOPEN_MUSL: &str = "`--loader dlopen`: programs of musl";
/// A refused target.
pub const DLOPEN_IDLE: &str =
    "`--loader dlopen`: programs that do not come by an allocation function";
/// A refused target.
pub const DLOPEN_FILTERED: &str = "`--loader dlopen`: programs under seccomp";
/// A target whose runtime keeps a profile itself, if it is switched on.
pub const NO_LIBC: &str = "Go without cgo";

/// The chapter of the guide with the table.
const CHAPTER: &str = "cli/guide/targets.md";

/// What comes of an attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is attached to.
    Yes,
    /// It is, with something missing or something to be added.
    InPart,
    /// Refused: something would have to be allowed or ended first.
    Refused,
    /// Refused: no permission helps.
    Unsupported,
    /// Tried, and given up with the target restored.
    GivenUp,
}

impl Outcome {
    /// As it stands in the table.
    pub fn label(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::InPart => "in part",
            Self::Refused => "no (3)",
            Self::Unsupported => "no (4)",
            Self::GivenUp => "no (1)",
        }
    }

    /// The exit status.
    pub fn code(self) -> Option<i32> {
        match self {
            Self::Yes => Some(0),
            Self::InPart => None,
            Self::Refused => Some(3),
            Self::Unsupported => Some(4),
            Self::GivenUp => Some(1),
        }
    }
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its first column.
    pub target: &'static str,
    /// Its second.
    pub outcome: Outcome,
    /// What the command says, which is in the third.
    pub says: &'static [&'static str],
    /// What proves it.
    pub proof: Proof,
}

/// What proves a row.
#[derive(Clone, Copy, Debug)]
pub enum Proof {
    /// Cells of the matrix.
    Cells,
    /// A test: its file and its name.
    Test(&'static str, &'static str),
}

/// The row of that target.
///
/// # Panics
/// If there is none.
pub fn find(target: &str) -> Row {
    let row = rows().into_iter().find(|row| row.target == target);
    row.unwrap_or_else(|| panic!("no row of {target}"))
}

/// All rows.
pub fn rows() -> Vec<Row> {
    use Outcome::{GivenUp, InPart, Refused, Unsupported, Yes};
    use Proof::{Cells, Test};
    let row = |target, outcome, says, proof| Row { target, outcome, says, proof };
    const REFUSALS: &str = "tests/tests/hazards/refusals.rs";
    vec![
        row("C, C++, Rust with glibc or musl, dynamic or static, PIE or not", Yes, &[], Cells),
        row("jemalloc, tcmalloc, mimalloc: linked, preloaded, in the program", Yes, &[], Cells),
        row("CPython and its extensions", Yes, &[], Cells),
        row("pools and allocators of one's own", InPart, &["--hook"], Cells),
        row("containers, user namespaces", Yes, &[], Cells),
        row(
            "programs that a loader is told to run",
            Yes,
            &[],
            Test(
                "tests/tests/hazards/told_loader.rs",
                "a_program_that_a_loader_was_told_to_run_is_attached_to",
            ),
        ),
        row(
            "programs with AddressSanitizer or LeakSanitizer",
            InPart,
            &["--no-follow-exec"],
            Test("tests/tests/truth/allocators.rs", "a_program_with_a_sanitizer_is_exact"),
        ),
        row(DLOPEN_STATIC, Unsupported, &["has no dlopen in its C library"], Cells),
        row(DLOPEN_MUSL, Refused, &["never unloads what it has loaded"], Cells),
        row(DLOPEN_FILTERED, Refused, &["a call of its loader's that the filter forbids"], Cells),
        row(
            "`--loader dlopen` and a `--hook` in the program itself",
            Refused,
            &["lies too far from"],
            Test(
                "tests/tests/hazards/loader_dlopen.rs",
                "a_named_function_that_the_object_is_too_far_from_is_refused",
            ),
        ),
        row(DLOPEN_IDLE, Refused, &["no thread of the target came to a place"], Cells),
        row(NO_LIBC, Yes, &["is on until the end of this session"], Cells),
        row(
            "static programs without symbols",
            Unsupported,
            &["no symbol names its allocator"],
            Test(REFUSALS, "refuses_a_static_program_without_symbols_or_hooks_it"),
        ),
        row(
            "programs without free addresses near their allocator",
            GivenUp,
            &["no free range of"],
            Test("injector/src/home/free_range.rs", "gives_up_when_nothing_is_in_reach"),
        ),
        row(
            "programs for other machines",
            Unsupported,
            &["the program is a 64-bit one for AArch64"],
            Test(
                "injector/src/preflight/machine.rs",
                "programs_of_other_machines_are_refused_by_name",
            ),
        ),
        row(
            "threads under syscall user dispatch (Wine, recorders)",
            Unsupported,
            &["returned to the program"],
            Test(REFUSALS, "refuses_a_thread_that_has_its_system_calls_given_back"),
        ),
        row(
            "inside a gVisor sandbox",
            Unsupported,
            &["is a gVisor sandbox"],
            Test(
                "injector/src/preflight/kernel.rs",
                "a_gvisor_sandbox_is_named_whatever_it_calls_itself",
            ),
        ),
        row(
            "a gVisor sandbox, from outside",
            Unsupported,
            &["is the kernel of a gVisor sandbox"],
            Test(REFUSALS, "refuses_the_kernel_of_a_sandbox"),
        ),
        row(
            "Linux before 5.6",
            Unsupported,
            &["the kernel is Linux"],
            Test(
                "injector/src/preflight/kernel.rs",
                "an_old_kernel_is_refused_and_an_unreadable_name_is_not",
            ),
        ),
        row(
            "what Yama forbids",
            Refused,
            &["ptrace_scope is"],
            Test("injector/src/preflight/denial.rs", "each_scope_of_yama_has_its_own_cure"),
        ),
        row(
            "what SELinux forbids",
            Refused,
            &["SELinux does not allow"],
            Test(
                "injector/src/preflight/denial.rs",
                "selinux_is_named_only_where_nobody_else_can_have_forbidden_it",
            ),
        ),
        row(
            "32-bit programs",
            Unsupported,
            &["is a 32-bit one"],
            Test(REFUSALS, "refuses_a_32_bit_process"),
        ),
        row(
            "processes with a tracer (gdb, strace)",
            Refused,
            &["is traced by process"],
            Test(REFUSALS, "refuses_a_process_with_another_tracer_and_names_it"),
        ),
        row(
            "a process that another heapattach looks at",
            Refused,
            &["another heapattach"],
            Test(REFUSALS, "refuses_while_another_heapattach_is_there"),
        ),
        row(
            "processes of other users",
            Refused,
            &["belongs to user"],
            Test(REFUSALS, "refuses_what_the_user_may_not_trace"),
        ),
        row(
            "seccomp without CAP_SYS_ADMIN",
            Refused,
            &["a forbidden call would kill it"],
            Test(REFUSALS, "refuses_a_filtered_process_that_our_calls_might_kill"),
        ),
        row("zombies", Refused, &["zombie"], Test(REFUSALS, "refuses_a_zombie")),
        row(
            "kernel threads",
            Unsupported,
            &["is a kernel thread"],
            Test(REFUSALS, "refuses_a_kernel_thread"),
        ),
        row(
            "heapattach itself",
            Refused,
            &["is heapattach itself"],
            Test(REFUSALS, "refuses_itself"),
        ),
        row(
            "a thread, not a process",
            Refused,
            &["is a thread of process"],
            Test(REFUSALS, "refuses_a_thread_and_names_its_process"),
        ),
    ]
}

/// The root of the project.
fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The columns of each row of the guide's table.
///
/// # Panics
/// If there is no such table.
pub fn table() -> Vec<[String; 3]> {
    let text = fs::read_to_string(root().join(CHAPTER)).expect("the chapter is there");
    let lines = text.lines().filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"));
    // The first line of a table names its columns.
    let rows = lines.skip(1).map(|line| {
        let mut columns = line.split(" | ").map(|column| column.trim().to_owned());
        std::array::from_fn(|_| columns.next().unwrap_or_default())
    });
    rows.collect()
}

/// What one has and the other has not: the list, and the guide.
pub fn differences() -> Vec<String> {
    let table = table();
    let told: BTreeSet<_> =
        table.iter().map(|[target, outcome, _]| (&**target, &**outcome)).collect();
    let rows = rows();
    let known: BTreeSet<_> = rows.iter().map(|row| (row.target, row.outcome.label())).collect();
    let missing = known.difference(&told).map(|row| format!("the guide has no {row:?}"));
    let extra = told.difference(&known).map(|row| format!("nothing proves {row:?}"));
    let unsaid = rows.iter().flat_map(|row| {
        let why =
            table.iter().find(|[target, ..]| target == row.target).map_or("", |[.., why]| why);
        let unsaid = row.says.iter().filter(|words| !why.contains(**words));
        unsaid.map(|words| format!("the guide does not say {words:?} of {:?}", row.target))
    });
    missing.chain(extra).chain(unsaid).collect()
}

/// Rows whose proof is not there.
pub fn without_proof() -> Vec<String> {
    let cells = super::cells();
    let is_proved = |row: &Row| match row.proof {
        // Those that are attached to are proved by all cells together.
        Proof::Cells => {
            matches!(row.outcome, Outcome::Yes | Outcome::InPart)
                || cells.iter().any(|cell| cell.expected == Expected::Refused(row.target))
        }
        Proof::Test(file, name) => fs::read_to_string(root().join(file)).is_ok_and(|text| {
            text.contains(&format!("#[test]\nfn {name}()"))
                || text.contains(&format!("#[test]\n    fn {name}()"))
        }),
    };
    rows().iter().filter(|row| !is_proved(row)).map(|row| row.target.to_owned()).collect()
}
