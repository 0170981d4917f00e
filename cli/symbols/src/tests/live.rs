//! This very process as the target, and small programs of the system's compiler.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::PathBuf,
};

use heapattach_process::{
    cache::Cache,
    proc::{Process, maps},
};

use crate::tests::folder::{self, Folder, Mapped};
use crate::{FileCache, Frame, Symbols, UNKNOWN};

fn of_this_process() -> Symbols {
    let process = Process::open(std::process::id().cast_signed()).unwrap();
    let text = process.read("maps").unwrap();
    let mut symbols = Symbols::new();
    symbols.note(&process, &maps::parse(&text).unwrap());
    symbols
}

#[test]
fn a_function_of_ours_has_its_name_its_file_and_its_line() {
    let mut symbols = of_this_process();
    let address = (of_this_process as *const ()).addr() as u64;
    let frames = symbols.symbolize(address);
    let outermost = frames.last().unwrap();
    let function = outermost.function.as_deref().unwrap();
    assert!(function.ends_with("symbols::tests::live::of_this_process"), "{function}");
    assert!(!outermost.inlined && frames[..frames.len() - 1].iter().all(|f| f.inlined));
    assert!(outermost.file.as_deref().unwrap().ends_with("tests/live.rs"), "{outermost:?}");
    assert!(outermost.line.is_some());
    assert_eq!(*outermost.module, *std::env::current_exe().unwrap().to_str().unwrap());
    assert_eq!(symbols.symbolize_return(address + 1), frames);
    assert_eq!(symbols.symbolize(address), frames, "again, as remembered");
}

#[test]
fn what_one_process_had_read_is_read_for_others_too_and_what_they_ask_besides() {
    let cache = FileCache::default();
    let process = Process::open(std::process::id().cast_signed()).unwrap();
    let text = process.read("maps").unwrap();
    let of_one = || {
        let mut symbols = Symbols::new();
        symbols.read_through(cache.clone());
        symbols.note(&process, &maps::parse(&text).unwrap());
        symbols
    };
    let [first, second] =
        [of_this_process as *const (), compiled as *const ()].map(|at| at.addr() as u64);
    let mut alone = of_this_process();
    for addresses in [vec![first], vec![second], vec![first, second]] {
        let mut symbols = of_one();
        symbols.prepare(addresses.iter().copied());
        for address in addresses {
            assert_eq!(symbols.symbolize(address), alone.symbolize(address));
        }
    }
}

#[test]
fn names_are_kept_for_the_next_session_and_found_anew_where_they_are_damaged() {
    let folder = Folder::new("kept-names");
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o700)).unwrap();
    let own = of_this_process as *const ();
    let addresses =
        [own, compiled as *const (), libc::malloc as *const (), libc::free as *const ()];
    let told = |count: usize| {
        let mut symbols = of_this_process();
        symbols.keep_names(Cache::within(&folder.0, &[]));
        let all = addresses[..count].iter().map(|at| symbols.symbolize(at.addr() as u64));
        all.collect::<Vec<_>>()
    };
    let files = || -> Vec<(PathBuf, u64)> {
        let found = fs::read_dir(&folder.0).unwrap().map(Result::unwrap);
        let mut all: Vec<_> = found.map(|e| (e.path(), e.metadata().unwrap().ino())).collect();
        all.sort();
        all
    };
    let mut without = of_this_process();
    let expected = addresses.map(|at| without.symbolize(at.addr() as u64));
    assert_eq!(told(3), expected[..3]);
    let kept = files();
    if kept.is_empty() {
        println!("SKIPPED: this program is on no file system that is trusted");
        return;
    }
    assert_eq!(told(3), expected[..3]);
    assert_eq!(files(), kept, "a file was read though its names are kept");
    // One that was not asked for before: its file is read, and it is kept with the others.
    assert_eq!(told(4), expected);
    let kept = files();
    for (path, _) in &kept {
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
    }
    assert_eq!(told(4), expected);
    assert!(files().iter().zip(&kept).all(|(now, before)| now.0 == before.0 && now.1 != before.1));
}

#[test]
fn malloc_has_the_name_its_callers_use_with_and_without_debug_files() {
    let address = (libc::malloc as *const ()).addr() as u64;
    let frames = of_this_process().symbolize(address);
    assert_eq!(frames.last().unwrap().function.as_deref(), Some("malloc"), "{frames:?}");
    assert!(frames[0].module.contains("libc"));
}

#[test]
fn an_address_of_nobody_gives_one_frame_without_names() {
    let mut symbols = of_this_process();
    for address in [0, 1, 0x42, u64::MAX] {
        let frames = symbols.symbolize(address);
        let [frame] = &frames[..] else { panic!("one frame") };
        assert_eq!((&*frame.module, frame.offset), (UNKNOWN, address));
        assert!(frame.function.is_none() && !frame.inlined);
    }
}

const SOURCE: &str = "namespace zoo {\n\
    int volatile sink;\n\
    inline __attribute__((always_inline)) void inner() {\n\
    sink = 1;\n\
    }\n\
    __attribute__((noinline)) void outer(int, char const *) {\n\
    inner();\n\
    }\n\
    }\n";

pub fn compiled(name: &str, flags: &str) -> Folder {
    let folder = Folder::new(name);
    fs::write(folder.0.join("zoo.cc"), SOURCE).unwrap();
    // One segment from the first byte on: the file offset is the address.
    let fixed = "-shared -fPIC -nostdlib -Wl,-z,noseparate-code -Wl,--build-id=sha1";
    folder.run(&format!("g++ {fixed} {flags} -o zoo.so zoo.cc"));
    folder
}

pub const OUTER: &str = "_ZN3zoo5outerEiPKc";

pub fn assert_inlined(frames: &[Frame]) {
    let told = |f: &Frame| (f.function.clone().unwrap(), f.line.unwrap(), f.inlined);
    let [inner, outer] = frames else { panic!("two calls: {frames:?}") };
    assert_eq!(told(inner), ("zoo::inner()".into(), 4, true));
    assert_eq!(told(outer), ("zoo::outer(int, char const*)".into(), 7, false));
    assert!(outer.file.as_deref().unwrap().ends_with("zoo.cc"));
}

/// The first address where `inner` is inlined.
fn in_inner(folder: &Folder, file: &str, start: u64) -> Vec<Frame> {
    let frames = (start..start + 32).map(|at| folder.at(file, at));
    frames.into_iter().find(|frames| frames.len() > 1).unwrap_or_default()
}

#[test]
fn inlined_calls_of_all_dwarf_versions_are_told_apart() {
    for flags in ["-gdwarf-4 -O2", "-gdwarf-5 -O2", "-gdwarf-5 -O2 -gz=zlib"] {
        let folder = compiled("inlined", flags);
        let start = folder.offset_of("zoo.so", OUTER);
        assert_inlined(&in_inner(&folder, "zoo.so", start));
    }
}

#[test]
fn what_two_modules_have_in_common_is_read_from_its_own_file() {
    let folder = compiled("common", "-g -O2");
    if !folder.has("dwz") {
        return folder::skip("no dwz here", "apt-get install dwz");
    }
    // Large enough to have something in common.
    let types: String =
        (0..200).map(|n| format!("struct T{n} {{ int a{n}, b{n}; }} t{n};\n")).collect();
    fs::write(folder.0.join("zoo.cc"), types + "#line 1\n" + SOURCE).unwrap();
    for name in ["zoo.so", "other.so"] {
        let fixed = "-shared -fPIC -nostdlib -Wl,-z,noseparate-code -Wl,--build-id=sha1 -g -O2";
        folder.run(&format!("g++ {fixed} -o {name} zoo.cc"));
    }
    folder.run("dwz -m common.debug -M common.debug zoo.so other.so");
    let start = folder.offset_of("zoo.so", OUTER);
    assert_inlined(&in_inner(&folder, "zoo.so", start));
    fs::remove_file(folder.0.join("common.debug")).unwrap();
    assert!(
        in_inner(&folder, "zoo.so", start)
            .iter()
            .all(|f| f.function.as_deref() != Some("zoo::inner()"))
    );
}

#[test]
fn sections_packed_by_zstd_are_read() {
    let folder = compiled("zstd", "-g -O2");
    let start = folder.offset_of("zoo.so", OUTER);
    if !folder.can_run("objcopy --compress-debug-sections=zstd zoo.so") {
        return folder::skip("this objcopy knows no zstd", "install binutils 2.40");
    }
    assert_inlined(&in_inner(&folder, "zoo.so", start));
}

#[test]
fn without_debug_information_the_symbol_table_names_the_function() {
    let folder = compiled("symbols", "-O2");
    let frames = folder.at("zoo.so", folder.offset_of("zoo.so", OUTER));
    let [frame] = &frames[..] else { panic!("one call") };
    assert_eq!(frame.function.as_deref(), Some("zoo::outer(int, char const*)"));
    assert_eq!((frame.offset, &frame.line), (folder.offset_of("zoo.so", OUTER), &None));
}

#[test]
fn a_debug_file_is_taken_only_with_the_same_build_id() {
    let folder = compiled("split", "-g -O2");
    let start = folder.offset_of("zoo.so", OUTER);
    folder.run("objcopy --only-keep-debug zoo.so zoo.debug");
    folder.run("strip --strip-all zoo.so");
    folder.run("objcopy --add-gnu-debuglink=zoo.debug zoo.so");
    assert_inlined(&in_inner(&folder, "zoo.so", start));

    let other = compiled("split-other", "-g -O1");
    other.run("objcopy --only-keep-debug zoo.so zoo.debug");
    fs::copy(other.0.join("zoo.debug"), folder.0.join("zoo.debug")).unwrap();
    let frames = folder.at("zoo.so", start);
    let [frame] = &frames[..] else { panic!("one call") };
    assert_eq!(frame.function.as_deref(), Some("zoo::outer(int, char const*)"));
    assert_eq!(frame.line, None);
}

#[test]
fn generated_code_has_the_names_its_generator_wrote_down() {
    let process = Process::open(std::process::id().cast_signed()).unwrap();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let pid = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap();
    let path = format!("/tmp/perf-{}.map", pid.split_whitespace().last().unwrap());
    fs::write(&path, "42000 100 Lapp/Main;::run\n").unwrap();
    let mut symbols = Symbols::new();
    symbols.note(&process, &[]);
    let text = process.read("maps").unwrap();
    symbols.note(&process, &maps::parse(&text).unwrap());
    assert_eq!(symbols.symbolize(0x42010)[0].function, None, "before it was read");
    symbols.note_generated();
    fs::remove_file(&path).unwrap();
    assert_eq!(symbols.symbolize(0x42010)[0].function.as_deref(), Some("Lapp/Main;::run"));
    assert_eq!(symbols.symbolize(0x42100)[0].function, None);
}

#[test]
fn what_has_no_debug_information_is_named_with_its_build() {
    let folder = compiled("missing", "-O2");
    let start = folder.offset_of("zoo.so", OUTER);
    let missing = |symbols: &mut Symbols| {
        assert_eq!(symbols.missing(), [], "nothing was asked");
        symbols.symbolize(folder::BASE + start);
        symbols.missing()
    };
    let [told] = &missing(&mut folder.mapped("zoo.so"))[..] else { panic!("one module") };
    assert_eq!((told.addresses, told.why.as_str()), (1, "no source lines, no inlined calls"));
    let id = told.build_id.as_ref().unwrap();
    assert!(id.len() == 40 && told.cure.contains(id), "{told:?}");
    folder.run("strip --strip-all zoo.so");
    let [told] = &missing(&mut folder.mapped("zoo.so"))[..] else { panic!("one module") };
    assert_eq!(told.why, "no debug symbols");

    let folder = compiled("not-missing", "-g -O2");
    let mut symbols = folder.mapped("zoo.so");
    symbols.symbolize(folder::BASE + start);
    symbols.symbolize(1);
    assert_eq!(symbols.missing(), []);
}

#[test]
fn many_addresses_at_once_have_the_names_of_each_alone() {
    let addresses: Vec<u64> = [
        (of_this_process as *const ()).addr(),
        (libc::malloc as *const ()).addr(),
        (libc::qsort as *const ()).addr(),
    ]
    .into_iter()
    .flat_map(|start| (0..200).map(move |n| start as u64 + 3 * n))
    .chain([0, 1, u64::MAX])
    .collect();
    let mut alone = of_this_process();
    let expected: Vec<_> = addresses.iter().map(|&at| alone.symbolize(at)).collect();
    let mut together = of_this_process();
    together.prepare(addresses.iter().chain(&addresses).copied());
    let known = together.remembered.len();
    let named = expected.iter().filter(|frames| frames[0].function.is_some()).count();
    assert!(known > 300 && named > 300, "{known} prepared, {named} named");
    let found: Vec<_> = addresses.iter().map(|&at| together.symbolize(at)).collect();
    assert_eq!(found, expected);
}
