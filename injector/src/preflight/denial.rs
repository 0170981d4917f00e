//! Why the kernel does not let us trace a process, in the words of what forbids it.

use std::fs;

use nix::errno::Errno;

use crate::refusal::Refusal;

/// What speaks for or against a trace, as `/proc` and `/sys` tell it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// `kernel.yama.ptrace_scope`; empty without that module.
    scope: String,
    /// Whether SELinux refuses what its policy does not allow.
    enforces: bool,
    /// The SELinux context of the target.
    context: String,
    /// Whose the target is.
    owner: u32,
    /// Who we are.
    own: u32,
    /// Whether we may trace every process in the first user namespace.
    may_trace_all: bool,
}

/// `CAP_SYS_PTRACE`.
const CAP_SYS_PTRACE: u64 = 1 << 19;

impl Facts {
    /// Looks at the machine and at process `pid` of user `owner`; `capabilities` are ours.
    pub fn of(pid: i32, owner: u32, capabilities: u64) -> Self {
        let read = |path: &str| {
            let text = fs::read_to_string(path).unwrap_or_default();
            text.trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned()
        };
        Self {
            scope: read("/proc/sys/kernel/yama/ptrace_scope"),
            enforces: enforces(),
            context: read(&format!("/proc/{pid}/attr/current")),
            owner,
            own: nix::unistd::geteuid().as_raw(),
            may_trace_all: capabilities & CAP_SYS_PTRACE != 0,
        }
    }
}

/// Whether SELinux refuses what its policy does not allow.
fn enforces() -> bool {
    fs::read_to_string("/sys/fs/selinux/enforce").is_ok_and(|text| text.trim() == "1")
}

/// Why process `pid` may not be traced.
pub(crate) fn explain(pid: i32, facts: &Facts, errno: Errno) -> Refusal {
    let need = "the right to trace it";
    match &*facts.scope {
        "3" => Refusal::denied(
            "ptrace_scope is 3 (no process may be traced)",
            "ptrace_scope 2 or less, which takes a reboot",
            "set kernel.yama.ptrace_scope in the boot configuration",
        ),
        "2" if !facts.may_trace_all => Refusal::denied(
            "ptrace_scope is 2 (administrators only)",
            "CAP_SYS_PTRACE",
            format!("try `sudo heapattach -p {pid}`"),
        ),
        "1" if facts.owner == facts.own && !facts.may_trace_all => Refusal::denied(
            "ptrace_scope is 1 (children only)",
            "0, or CAP_SYS_PTRACE, or to be its parent",
            format!(
                "try `sudo heapattach -p {pid}`, or `sysctl kernel.yama.ptrace_scope=0`, or start \
                 it with `heapattach run -- COMMAND`"
            ),
        ),
        _ if facts.owner != facts.own && facts.own != 0 => Refusal::denied(
            format!(
                "process {pid} belongs to user {}, heapattach runs as user {}",
                facts.owner, facts.own
            ),
            need,
            format!("try `sudo heapattach -p {pid}`"),
        ),
        // Nothing else forbids it.
        _ if facts.enforces && facts.may_trace_all && errno == Errno::EACCES => Refusal::denied(
            format!("SELinux does not allow tracing process {pid} ({})", facts.context),
            "the permission ptrace for that domain",
            "try `setsebool deny_ptrace off`; `ausearch -m avc -ts recent` names the rule",
        ),
        _ => Refusal::denied(
            format!("the kernel does not allow tracing process {pid} ({})", errno.desc()),
            "CAP_SYS_PTRACE in its user namespace (it may have made itself undumpable)",
            format!("try `sudo heapattach -p {pid}`, outside of any container"),
        ),
    }
}

/// Why executable memory may not be mapped in process `pid`, if it is SELinux that forbids it.
pub(crate) fn of_code(pid: i32, errno: Errno) -> Option<Refusal> {
    explain_code(pid, errno, enforces())
}

fn explain_code(pid: i32, errno: Errno, enforces: bool) -> Option<Refusal> {
    (enforces && errno == Errno::EACCES).then(|| {
        Refusal::denied(
            format!("SELinux does not allow process {pid} to have new code (execmem)"),
            "the permission execmem for its domain",
            "try `semanage permissive -a DOMAIN` meanwhile, with the domain that `ps -Z` shows",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(scope: &str, owner: u32, own: u32, may_trace_all: bool) -> Facts {
        Facts { scope: scope.to_owned(), owner, own, may_trace_all, ..Facts::default() }
    }

    #[test]
    fn each_scope_of_yama_has_its_own_cure() {
        let said = |facts: &Facts| explain(7, facts, Errno::EPERM).to_string();
        assert!(said(&facts("3", 5, 0, true)).contains("reboot"));
        assert!(said(&facts("2", 5, 5, false)).contains("administrators only"));
        assert!(said(&facts("1", 5, 5, false)).contains("heapattach run"));
        assert!(said(&facts("1", 6, 5, false)).contains("belongs to user 6"));
        assert!(said(&facts("0", 6, 5, false)).contains("belongs to user 6"));
        assert!(said(&facts("", 5, 5, false)).contains("undumpable"));
    }

    #[test]
    fn selinux_is_named_only_where_nobody_else_can_have_forbidden_it() {
        let enforcing = |facts: Facts| Facts { enforces: true, context: "httpd_t".into(), ..facts };
        let said = |facts: Facts, errno| explain(7, &facts, errno).to_string();
        let root = said(enforcing(facts("1", 5, 0, true)), Errno::EACCES);
        assert!(root.contains("SELinux") && root.contains("httpd_t"), "{root}");
        assert!(!said(enforcing(facts("1", 5, 5, false)), Errno::EACCES).contains("SELinux"));
        assert!(!said(enforcing(facts("", 6, 5, true)), Errno::EACCES).contains("SELinux"));
        assert!(!said(enforcing(facts("", 5, 0, true)), Errno::ESRCH).contains("SELinux"));
        assert!(!said(facts("", 5, 0, true), Errno::EACCES).contains("SELinux"));
    }

    #[test]
    fn new_code_is_forbidden_by_selinux_only_where_it_is_enforced() {
        let refusal = explain_code(7, Errno::EACCES, true).unwrap();
        assert!(refusal.value.contains("execmem"), "{refusal}");
        assert_eq!(explain_code(7, Errno::EACCES, false), None);
        assert_eq!(explain_code(7, Errno::ENOMEM, true), None);
    }
}
