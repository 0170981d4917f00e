//! How to get the debug information of a module, as its distribution does it.
//!
//! The databases are the target's: nothing of them but names that a package may have gets into what
//! a user may type.

use std::{
    collections::HashMap,
    io::Read,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use heapattach_process::proc::build_id::BuildId;

use crate::files::root::Root;

/// Lists of files are read so far; a large installation has half of it.
const LISTS_LIMIT: u64 = 64 << 20;
/// Files that are remembered.
const FILES_LIMIT: usize = 1 << 12;
const OS_RELEASE_LIMIT: u64 = 64 << 10;
const DPKG: &str = "/var/lib/dpkg/info";

/// A way to get debug information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Debian,
    Fedora,
    Suse,
    Other,
}

/// The packages of one file tree.
#[derive(Debug)]
pub struct Packages {
    kind: Kind,
    by_file: HashMap<PathBuf, String>,
}

/// What was found out about one file tree: each file is looked for once, for all processes of a family
/// (thousands of lists would be read for each of them).
#[derive(Clone, Debug, Default)]
pub struct Found(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    kind: Option<Kind>,
    /// Files, and the packages of those that came with one.
    owners: HashMap<PathBuf, Option<String>>,
}

impl Packages {
    /// Looks for the packages that `files` came with, except for those that were looked for before.
    pub fn of(root: Option<&Root>, files: &[&Path], found: &Found) -> Self {
        let Some(root) = root else { return Self { kind: Kind::Other, by_file: HashMap::new() } };
        let mut known = found.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = *known.kind.get_or_insert_with(|| kind(root));
        if kind != Kind::Debian {
            return Self { kind, by_file: HashMap::new() };
        }
        let new = files.iter().copied().filter(|file| !known.owners.contains_key(*file));
        let new: Vec<&Path> = new.collect();
        let mut owners = owners(root, &new);
        if known.owners.len() > FILES_LIMIT {
            known.owners.clear();
        }
        for file in new {
            let owner = owners.remove(file);
            known.owners.insert(file.to_path_buf(), owner);
        }
        let owner = |file: &&Path| Some((file.to_path_buf(), known.owners.get(*file)?.clone()?));
        Self { kind, by_file: files.iter().filter_map(owner).collect() }
    }

    /// What to type for the debug information of `file`.
    pub fn cure(&self, file: &Path, id: Option<&BuildId>) -> String {
        let Some(id) = id else { return "compile it with -g -Wl,--build-id".to_owned() };
        let (folder, name) = id.split();
        let debug_file = format!("/usr/lib/debug/.build-id/{folder}/{name}.debug");
        match (self.kind, self.by_file.get(file)) {
            (Kind::Debian, Some(package)) => format!("apt-get install {}", debug_package(package)),
            (Kind::Fedora, _) => format!("dnf --enablerepo='*debug*' install {debug_file}"),
            (Kind::Suse, _) => format!("zypper install -C 'debuginfo(build-id)={id}'"),
            _ => format!("debuginfod-find debuginfo {id}, and copy it to {debug_file}"),
        }
    }
}

/// Debian's own is called otherwise than all the rest.
fn debug_package(package: &str) -> String {
    if package == "libc6" { "libc6-dbg".to_owned() } else { format!("{package}-dbgsym") }
}

fn kind(root: &Root) -> Kind {
    let mut text = String::new();
    if let Some(file) = root.open(Path::new("/etc/os-release")) {
        let _ = file.take(OS_RELEASE_LIMIT).read_to_string(&mut text);
    }
    kind_of(&text)
}

fn kind_of(os_release: &str) -> Kind {
    let ids = os_release.lines().filter_map(|line| {
        line.strip_prefix("ID=")
            .or_else(|| line.strip_prefix("ID_LIKE="))
            .map(|ids| ids.trim_matches(['"', '\'']))
    });
    let known = |id| match id {
        "debian" | "ubuntu" => Some(Kind::Debian),
        "fedora" | "rhel" | "centos" => Some(Kind::Fedora),
        "suse" | "opensuse" | "sles" => Some(Kind::Suse),
        _ => None,
    };
    ids.flat_map(str::split_whitespace).find_map(known).unwrap_or(Kind::Other)
}

/// The packages by file, out of dpkg's lists.
fn owners(root: &Root, files: &[&Path]) -> HashMap<PathBuf, String> {
    let mut owners = HashMap::new();
    // Lists are older than the move of everything below /usr.
    let older = |file: &Path| Some(Path::new("/").join(file.strip_prefix("/usr").ok()?));
    let names = files.iter().flat_map(|file| {
        let both = std::iter::once(file.to_path_buf()).chain(older(file));
        both.map(|name| (name.into_os_string().into_encoded_bytes(), *file))
    });
    let wanted: HashMap<Vec<u8>, &Path> = names.collect();
    if files.is_empty() {
        return owners;
    }
    let mut left = LISTS_LIMIT;
    for name in root.names(Path::new(DPKG)) {
        // Each file came with one package at most, so that there is nothing more to be found.
        if owners.len() == files.len() {
            break;
        }
        let Some(package) = name.to_str().and_then(package_of) else { continue };
        let Some(file) = root.open(&Path::new(DPKG).join(&name)) else { continue };
        let mut list = Vec::new();
        let _ = file.take(left).read_to_end(&mut list);
        left = left.saturating_sub(list.len() as u64);
        for line in list.split(|&byte| byte == b'\n') {
            if let Some(file) = wanted.get(line) {
                owners.insert(file.to_path_buf(), package.to_owned());
            }
        }
    }
    owners
}

/// `libc6:amd64.list`, if that is a name a package may have.
fn package_of(list: &str) -> Option<&str> {
    let name = list.strip_suffix(".list")?.split(':').next()?;
    let may_be = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
    (name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(may_be))
        .then_some(name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::tests::folder::Folder;

    fn id() -> BuildId {
        BuildId::new(&[0xab, 1, 2]).unwrap()
    }

    #[test]
    fn each_distribution_has_its_command() {
        let table = [
            ("NAME=x\nID=ubuntu\nID_LIKE=debian\n", Kind::Debian),
            ("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", Kind::Fedora),
            ("ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", Kind::Suse),
            ("ID=arch\n", Kind::Other),
            ("", Kind::Other),
        ];
        for (text, kind) in table {
            assert_eq!(kind_of(text), kind, "{text}");
        }
        let cure =
            |kind| Packages { kind, by_file: HashMap::new() }.cure(Path::new("/a"), Some(&id()));
        assert!(cure(Kind::Fedora).ends_with("install /usr/lib/debug/.build-id/ab/0102.debug"));
        assert_eq!(cure(Kind::Suse), "zypper install -C 'debuginfo(build-id)=ab0102'");
        // No package: it is the user's own program.
        assert!(cure(Kind::Debian).starts_with("debuginfod-find debuginfo ab0102"));
    }

    #[test]
    fn the_package_of_a_file_is_found_in_the_lists_of_dpkg() {
        let folder = Folder::new("packages");
        let info = folder.0.join("var/lib/dpkg/info");
        fs::create_dir_all(&info).unwrap();
        fs::create_dir_all(folder.0.join("etc")).unwrap();
        fs::write(folder.0.join("etc/os-release"), "ID=debian\n").unwrap();
        fs::write(info.join("libc6:amd64.list"), "/.\n/lib\n/lib/libc.so.6\n\n").unwrap();
        fs::write(info.join("zlib1g.list"), "/usr/lib/libz.so\n").unwrap();
        fs::write(info.join("$(reboot).list"), "/usr/lib/evil.so\n").unwrap();
        let root = Root::at(&folder.0).unwrap();
        let files = ["/usr/lib/libc.so.6", "/usr/lib/libz.so", "/usr/lib/evil.so", "/opt/app"]
            .map(Path::new);
        let found = Found::default();
        let packages = Packages::of(Some(&root), &files, &found);
        let cures = files.map(|file| packages.cure(file, Some(&id())));
        assert_eq!(cures[0], "apt-get install libc6-dbg");
        assert_eq!(cures[1], "apt-get install zlib1g-dbgsym");
        assert!(!cures[2].contains("reboot"), "{}", cures[2]);
        assert!(cures[3].starts_with("debuginfod-find"), "{}", cures[3]);
        // The next process of the family has the same files: no list is read again.
        fs::remove_dir_all(&info).unwrap();
        let again = Packages::of(Some(&root), &files, &found.clone());
        assert_eq!(files.map(|file| again.cure(file, Some(&id()))), cures);
    }
}
