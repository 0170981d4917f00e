//! Whether a process is one that was asked for. Pure.

use std::fmt::{self, Display, Formatter};

use super::candidate::Candidate;

/// The kernel cuts short names there.
const SHORT_NAME: usize = 15;
/// Fewer characters of an identifier could be those of many containers.
const LEAST_OF_ID: usize = 4;
/// Where control groups are usually seen.
const MOUNT: &str = "/sys/fs/cgroup";

/// What the user typed.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// A program of that name.
    Name(&'a str),
    /// The same, typed without an option: where a command could stand.
    Word(&'a str),
    /// A process in a control group, or below it.
    Cgroup(&'a str),
    /// A process in a container.
    Container(&'a str),
}

impl Wanted<'_> {
    /// Whether this process is it.
    pub fn is(&self, one: &Candidate) -> bool {
        match self {
            Self::Name(name) | Self::Word(name) => {
                let short =
                    name.char_indices().nth(SHORT_NAME).map_or(*name, |(at, _)| &name[..at]);
                one.short_name == short || one.names.iter().any(|own| own == name)
            }
            Self::Cgroup(path) => {
                let wanted: Vec<_> = parts(path).collect();
                groups(&one.cgroups).any(|group| {
                    let group: Vec<_> = parts(group).collect();
                    group.windows(wanted.len()).any(|window| window == wanted)
                })
            }
            Self::Container(id) => {
                groups(&one.cgroups).flat_map(parts).any(|part| is_container(part, id))
            }
        }
    }

    /// What to try where there is none.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Name(_) => "`heapattach completions --pids` lists what runs",
            Self::Word(_) => {
                "nor is it a command: `heapattach help` lists commands, \
                 `heapattach completions --pids` what runs"
            }
            Self::Cgroup(_) => "`systemd-cgls` or /proc/PID/cgroup shows the groups",
            Self::Container(_) => {
                "names are known to the container engine alone: `docker inspect -f '{{.Id}}' NAME`, \
                 `crictl ps`; its processes must be visible here (`--pid=host`)"
            }
        }
    }
}

impl Display for Wanted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) | Self::Word(name) => write!(f, "named `{name}`"),
            Self::Cgroup(path) => write!(f, "in control group `{path}`"),
            Self::Container(id) => write!(f, "in container `{id}`"),
        }
    }
}

/// A process without an option: a pid, or a name.
pub fn parse_word(text: &str) -> Result<String, String> {
    let is_number =
        text.strip_prefix(['-', '+']).unwrap_or(text).bytes().all(|b| b.is_ascii_digit());
    if is_number && !text.parse::<i32>().is_ok_and(|pid| pid > 0) {
        return Err(format!("`{text}` is not a pid; need a number of 1 or more, or a name"));
    }
    Ok(text.to_owned())
}

/// The value of `--cgroup`: a path below the mount, or its end.
pub fn parse_cgroup(text: &str) -> Result<String, String> {
    let path = text.strip_prefix(MOUNT).unwrap_or(text);
    if parts(path).next().is_none() {
        return Err(format!(
            "`{text}` is the root, the group of all processes; name a group below it"
        ));
    }
    Ok(path.to_owned())
}

/// The value of `--container`.
pub fn parse_container(text: &str) -> Result<String, String> {
    if text.len() < LEAST_OF_ID {
        return Err(format!("`{text}` is too short for an identifier: {LEAST_OF_ID} characters"));
    }
    Ok(text.to_owned())
}

/// The paths of `/proc/PID/cgroup`: number, controllers and path between colons.
fn groups(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| line.splitn(3, ':').nth(2))
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

/// Engines call the group by the identifier, some with their own name before it and a unit's kind
/// behind.
fn is_container(part: &str, id: &str) -> bool {
    let bare = part.strip_suffix(".scope").unwrap_or(part);
    let bare = bare.rsplit(['-', ':']).next().unwrap_or(bare);
    let lxc = part.strip_prefix("lxc.payload.");
    part == id || lxc == Some(id) || is_identifier(bare) && bare.starts_with(id)
}

/// As engines make them: a hash, or half of one.
fn is_identifier(text: &str) -> bool {
    text.len() >= 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4f1c8a2b9d3e5f60718293a4b5c6d7e8f90123456789abcdef0123456789abcd";

    fn in_group(path: &str) -> Candidate {
        Candidate { cgroups: format!("0::{path}\n"), ..Candidate::default() }
    }

    #[test]
    fn a_name_is_that_of_the_kernel_or_of_the_file() {
        let one = Candidate {
            short_name: "a-long-named-se".to_owned(),
            names: vec!["server.bin".to_owned()],
            ..Candidate::default()
        };
        assert!(Wanted::Name("a-long-named-server").is(&one));
        assert!(Wanted::Name("server.bin").is(&one));
        assert!(!Wanted::Name("server").is(&one));
        assert!(!Wanted::Name("").is(&one));
    }

    #[test]
    fn a_word_is_a_pid_or_a_name() {
        assert!(parse_word("4711").is_ok() && parse_word("redis-server").is_ok());
        assert!(parse_word("0").is_err() && parse_word("").is_err());
        assert!(parse_word("99999999999").is_err());
    }

    #[test]
    fn a_group_is_found_by_its_end_its_whole_path_and_those_above() {
        let one = in_group("/system.slice/redis.service/worker");
        for path in ["redis.service", "/system.slice/redis.service", "system.slice", "worker/"] {
            assert!(Wanted::Cgroup(path).is(&one), "{path}");
        }
        for path in ["redis", "system.slice/worker", "other.service"] {
            assert!(!Wanted::Cgroup(path).is(&one), "{path}");
        }
        assert_eq!(parse_cgroup("/sys/fs/cgroup/a/b").unwrap(), "/a/b");
        assert!(parse_cgroup("/sys/fs/cgroup/").is_err() && parse_cgroup("").is_err());
    }

    #[test]
    fn containers_of_every_engine_are_found_by_the_beginning_of_their_identifier() {
        let groups = [
            format!("/docker/{ID}"),
            format!("/system.slice/docker-{ID}.scope"),
            format!("/machine.slice/libpod-{ID}.scope/container"),
            format!("/kubepods.slice/kubepods-pod12.slice/cri-containerd-{ID}.scope"),
            format!("/kubepods/besteffort/pod1/{ID}"),
            format!("/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:{ID}"),
        ];
        for group in &groups {
            assert!(Wanted::Container(&ID[..12]).is(&in_group(group)), "{group}");
            assert!(Wanted::Container(ID).is(&in_group(group)), "{group}");
            assert!(!Wanted::Container("8a2b9d3e").is(&in_group(group)), "{group}");
        }
        assert!(Wanted::Container("web1").is(&in_group("/lxc.payload.web1/init.scope")));
        assert!(!Wanted::Container("syst").is(&in_group("/system.slice/a.service")));
        assert!(parse_container("4f1").is_err());
    }

    #[test]
    fn a_line_of_the_first_kind_of_groups_is_read_too() {
        let text = format!("5:memory:/docker/{ID}\n4:cpu,cpuacct:/docker/{ID}\n");
        let one = Candidate { cgroups: text, ..Candidate::default() };
        assert!(Wanted::Container(&ID[..8]).is(&one));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_compared(cgroups: String, name: String) {
            let one = Candidate { cgroups, ..Candidate::default() };
            for wanted in [Wanted::Name(&name), Wanted::Container(&name)] {
                let _ = wanted.is(&one);
            }
            if parse_cgroup(&name).is_ok() {
                let _ = Wanted::Cgroup(&name).is(&one);
            }
        }
    }
}
