//! The kernel we run on: whether it is Linux at all, and a Linux that can do what we need.

use nix::sys::utsname::uname;

use crate::refusal::Refusal;

/// openat2(2), with which a container's files are opened safely, came with this.
pub const OLDEST: (u32, u32) = (5, 6);

/// gVisor's kernel calls itself by this build of Linux, in whatever release it claims to be.
const GVISOR_BUILD: &str = "#1 SMP Sun Jan 10 15:06:54 PST 2016";

/// Refuses kernels that lack something.
///
/// # Errors
/// With the kernel named.
pub(crate) fn check() -> Result<(), Refusal> {
    let Ok(names) = uname() else { return Ok(()) };
    judge(&names.release().to_string_lossy(), &names.version().to_string_lossy())
}

fn judge(release: &str, build: &str) -> Result<(), Refusal> {
    if release.contains("gvisor") || build == GVISOR_BUILD {
        return Err(Refusal::unsupported(
            format!("this is a gVisor sandbox, whose kernel claims to be Linux {release}"),
            "Linux itself, for the details of ptrace and of /proc",
            "run the program in an ordinary container (runc) to attach to it",
        ));
    }
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|n| n.parse().unwrap_or(0));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version >= OLDEST || version == (0, 0) {
        return Ok(());
    }
    Err(Refusal::unsupported(
        format!("the kernel is Linux {release}"),
        &format!("Linux {}.{} or later", OLDEST.0, OLDEST.1),
        "run heapattach on a newer kernel",
    ))
}

/// Refuses the kernel of a sandbox: from outside, the programs in it are no processes, but the
/// memory of this one.
///
/// # Errors
/// If a process of that name is one.
pub(crate) fn check_sandbox(pid: i32, name: &str) -> Result<(), Refusal> {
    if !name.starts_with("runsc") {
        return Ok(());
    }
    Err(Refusal::unsupported(
        format!("process {pid} ({name}) is the kernel of a gVisor sandbox"),
        "a process of this machine, which those in a sandbox are not",
        "run the program in an ordinary container (runc) to attach to it",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gvisor_sandbox_is_named_whatever_it_calls_itself() {
        for release in ["4.4.0", "4.19.0-gvisor", "6.1.0"] {
            let refusal = judge(release, GVISOR_BUILD).unwrap_err();
            assert!(refusal.unsupported && refusal.value.contains("is a gVisor sandbox"));
        }
        let refusal = judge("6.1.0-gvisor", "#2").unwrap_err();
        assert!(refusal.value.contains("gVisor"), "{refusal}");
    }

    #[test]
    fn an_old_kernel_is_refused_and_an_unreadable_name_is_not() {
        assert!(judge("5.5.19-generic", "#1 SMP").unwrap_err().value.contains("5.5.19"));
        for release in ["5.6.0", "6.18.44-fc", "10.0", "", "strange"] {
            assert_eq!(judge(release, "#1 SMP PREEMPT_DYNAMIC"), Ok(()), "{release}");
        }
    }

    #[test]
    fn the_kernel_of_a_sandbox_is_known_by_its_name() {
        for name in ["runsc", "runsc-sandbox", "runsc-gofer"] {
            let refusal = check_sandbox(7, name).unwrap_err();
            assert!(refusal.value.contains("kernel of a gVisor sandbox"), "{refusal}");
        }
        assert_eq!(check_sandbox(7, "runc"), Ok(()));
    }
}
