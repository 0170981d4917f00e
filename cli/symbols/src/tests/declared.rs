//! What compilers declare of variables and types, and what damage does to it.

use std::{
    fs::{self, File},
    path::Path,
    time::{Duration, Instant},
};

use super::folder::Folder;
use crate::{
    declared::{Declared, Kind, Language, Limits, TypeId, read},
    entries::{Allowance, Sections},
};

const SOURCE: &str = "\
namespace app {
struct base { long kind; };
template <class T> struct pair { T *first, *second; };
struct node : base {
    struct node *next;
    union { void *any; long number; } of;
    pair<const base> both[3];
    char text[];
};
node *head;
}
typedef struct { int x; app::node **all; } registry;
registry one;
void *any;
app::node *get() { static app::node *cached; if (!cached) cached = app::head; return cached; }
";

fn limits() -> Limits {
    let end = Instant::now() + Duration::from_secs(20);
    Limits { entries: 1 << 20, types: 1 << 12, end }
}

fn declared(path: &Path, limits: &Limits) -> Option<Declared> {
    let sections = Sections::read(File::open(path).ok()?, &Allowance::default())?;
    read(&sections, ["app::base", "nothing"], limits)
}

fn compiled(flags: &str) -> Folder {
    let folder = Folder::new("declared");
    fs::write(folder.0.join("a.cpp"), SOURCE).unwrap();
    folder.run(&format!("g++ -O1 -shared -fPIC {flags} -o a.so a.cpp"));
    folder
}

#[test]
fn variables_have_the_types_that_they_were_declared_with() {
    for flags in ["-gdwarf-4", "-gdwarf-5", "-gdwarf-5 -gz=zlib"] {
        let folder = compiled(flags);
        let all = declared(&folder.0.join("a.so"), &limits()).unwrap();
        assert_eq!((all.language, all.missing), (Language::Cpp, None));
        let variable = |name: &str| all.variables.iter().find(|one| one.name == name);
        let pointee = |of: TypeId| match all.get(of).map(|own| &own.kind) {
            Some(Kind::Pointer(to)) => *to,
            other => panic!("a pointer: {other:?}"),
        };
        let node = pointee(variable("head").unwrap().of).unwrap();
        assert_eq!(variable("cached").map(|one| pointee(one.of)), Some(Some(node)));
        assert_eq!(variable("any").map(|one| pointee(one.of)), Some(None));
        let own = all.get(node).unwrap();
        assert_eq!((own.name.as_str(), own.size), ("app::node", 24 + 48));
        let Kind::Structure(members) = &own.kind else { panic!("{own:?}") };
        let offsets: Vec<u64> = members.iter().map(|member| member.offset).collect();
        assert_eq!(offsets, [0, 8, 16, 24, 72]);
        assert_eq!(members[0].of, all.by_name["app::base"]);
        assert_eq!(pointee(members[1].of), Some(node));
        assert!(matches!(all.get(members[2].of).unwrap().kind, Kind::Union(_)));
        assert_eq!(all.size(members[3].of), 48);
        assert!(matches!(all.get(members[4].of).unwrap().kind, Kind::Array(_, 0)));
        let one = all.get(variable("one").unwrap().of).unwrap();
        assert_eq!((one.name.as_str(), one.size), ("registry", 16));
        assert!(!all.by_name.contains_key("nothing"));
    }
}

#[test]
fn what_is_more_than_is_allowed_is_left_out_and_told() {
    let folder = compiled("-gdwarf-5");
    let path = folder.0.join("a.so");
    let few = Limits { entries: 10, ..limits() };
    assert_eq!(declared(&path, &few).unwrap().missing, Some("it has too many entries"));
    let few = Limits { types: 3, ..limits() };
    let all = declared(&path, &few).unwrap();
    assert!(all.types.len() <= 3 && all.missing == Some("it has too many types"), "{all:?}");
}

/// Each is within what a file may have, and says itself how much that is.
#[test]
fn all_files_together_take_no_more_than_one_may() {
    let folder = compiled("-gdwarf-5 -gz=zlib");
    let [one, other] = ["a.so", "b.so"].map(|name| folder.0.join(name));
    fs::copy(&one, &other).unwrap();
    let read = |path: &Path, of: &Allowance| Sections::read(File::open(path).unwrap(), of);
    let sizes = (0..1 << 10).map(|kib| kib << 10);
    let fits = |size: &u64| read(&one, &Allowance::of(*size)).is_some();
    let need = sizes.into_iter().find(fits).expect("it is small");

    let small = Allowance::of(need * 3 / 2);
    let first = read(&one, &small).expect("there is room for one");
    assert!(read(&other, &small).is_none(), "two are too many");
    drop(first);
    assert!(read(&other, &small).is_some(), "the first is gone");

    let busy = Allowance::of(1 << 20).with_work(need);
    assert!(read(&one, &busy).is_some());
    assert!((0..4).any(|_| read(&other, &busy).is_none()), "seconds of work for ever");
}

#[test]
fn damage_is_survived() {
    let folder = compiled("-gdwarf-5");
    let (whole, path) = (fs::read(folder.0.join("a.so")).unwrap(), folder.0.join("b.so"));
    let mut number = 0x9e37_79b9_usize;
    for round in 0..600 {
        let mut damaged = whole.clone();
        for _ in 0..=round % 40 {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Behind what is loaded are the sections of debug data.
            let at = whole.len() / 2 + (number >> 24) % (whole.len() / 2);
            damaged[at] = number.to_le_bytes()[7];
        }
        fs::write(&path, damaged).unwrap();
        if let Some(all) = declared(&path, &limits()) {
            assert!(all.types.len() <= 1 << 12);
            (0..u32::try_from(all.types.len()).unwrap()).for_each(|of| {
                all.size(TypeId(of));
            });
        }
    }
}
