//! Servers of debug information: good ones, bad ones, slow ones.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use heapattach_process::proc::build_id::BuildId;

use crate::files::debuginfod::{Debuginfod, Settings};
use crate::tests::{
    debuginfod_server::{Answer, Server},
    folder::{self, BASE, Folder, Mapped},
    live::{OUTER, assert_inlined, compiled},
};
use crate::{Frame, Missing, Symbols};

/// A stripped module, its debug information elsewhere, and an empty cache.
struct Stripped {
    folder: Folder,
    debug: Vec<u8>,
    start: u64,
    id: String,
    /// Seconds in which a server has to say something: many, for a busy machine lets it wait, too.
    patience: u64,
}

impl Stripped {
    fn new(name: &str, flags: &str) -> Self {
        let folder = compiled(name, flags);
        let start = folder.offset_of("zoo.so", OUTER);
        folder.run("objcopy --only-keep-debug zoo.so zoo.away");
        folder.run("strip --strip-all zoo.so");
        let debug = fs::read(folder.0.join("zoo.away")).unwrap();
        let id = BuildId::of_file(&fs::File::open(folder.0.join("zoo.so")).unwrap()).unwrap();
        Self { folder, debug, start, id: id.to_string(), patience: 60 }
    }

    fn cache(&self) -> PathBuf {
        self.folder.0.join("cache")
    }

    /// The settings of an environment with these servers.
    fn settings(&self, urls: &str, largest: usize) -> Settings {
        let variable = |name: &str| match name {
            "DEBUGINFOD_URLS" => Some(urls.into()),
            "DEBUGINFOD_CACHE_PATH" => Some(self.cache().into()),
            "DEBUGINFOD_TIMEOUT" => Some(self.patience.to_string().into()),
            "DEBUGINFOD_MAXSIZE" => Some(largest.to_string().into()),
            _ => None,
        };
        Settings::of(variable).unwrap()
    }

    fn symbols(&self, urls: &str, largest: usize) -> Symbols {
        let mut symbols = self.folder.mapped("zoo.so");
        symbols.modules.ask(Debuginfod::new(Some(self.settings(urls, largest))));
        symbols
    }

    fn fetch(&self, symbols: &mut Symbols, watch: &mut dyn FnMut(&str) -> bool) {
        symbols.fetch_returns([BASE + self.start + 1], watch);
    }

    /// The calls at the first address with inlined ones, or at the first, and what is missing.
    fn ask(&self, urls: &str, largest: usize) -> (Vec<Frame>, Vec<Missing>) {
        let mut symbols = self.symbols(urls, largest);
        self.fetch(&mut symbols, &mut |_| true);
        let mut all = (self.start..self.start + 32).map(|at| symbols.symbolize(BASE + at));
        let first = all.next().unwrap();
        let calls = all.find(|calls| calls.len() > 1).unwrap_or(first);
        (calls, symbols.missing())
    }

    /// Asserts that a server with this answer gives nothing, leaves nothing, and is told of so.
    fn assert_refused(&self, answer: Answer, largest: usize, why: &str) {
        let server = Server::start(move |_| answer.clone());
        let (calls, missing) = self.ask(&server.url, largest);
        let [call] = &calls[..] else { panic!("no inlined calls: {calls:?}") };
        assert_eq!((call.line, call.file.as_deref()), (None, None));
        let [missing] = &missing[..] else { panic!("one module: {missing:?}") };
        let place = server.url.trim_start_matches("http://");
        assert!(missing.why.contains(why) && missing.why.contains(place), "{}", missing.why);
        let left: Vec<_> = walk(self.cache());
        assert!(left.is_empty(), "{left:?}");
    }
}

/// The files below a folder of folders.
fn walk(folder: PathBuf) -> Vec<PathBuf> {
    let inside =
        |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().map(|e| e.unwrap().path());
    inside(folder).flat_map(inside).collect()
}

const LARGEST: usize = 10 << 20;

#[test]
fn names_and_lines_come_from_a_server_and_then_from_the_cache() {
    let module = Stripped::new("fetched", "-g -O2");
    for answer in [Answer::file, Answer::unsized_file] {
        let _ = fs::remove_dir_all(module.cache());
        let answer = answer(&module.debug);
        let server = Server::start(move |_| answer.clone());
        let (calls, missing) = module.ask(&server.url, LARGEST);
        assert_inlined(&calls);
        assert_eq!(missing, []);
        assert_eq!(server.asked(), [format!("/buildid/{}/debuginfo", module.id)]);
        let url = server.url.clone();
        drop(server);
        assert_inlined(&module.ask(&url, LARGEST).0);
    }
}

#[test]
fn nobody_is_asked_for_what_is_here() {
    let module = Stripped::new("here", "-g -O2");
    fs::write(module.folder.0.join("zoo.debug"), &module.debug).unwrap();
    module.folder.run("objcopy --add-gnu-debuglink=zoo.debug zoo.so");
    let server = Server::start(|_| Answer::status("404 Not Found"));
    assert_inlined(&module.ask(&server.url, LARGEST).0);
    assert_eq!(server.asked(), Vec::<String>::new());
}

#[test]
fn another_build_is_never_taken() {
    let module = Stripped::new("wrong", "-g -O2");
    let other = Stripped::new("wrong-other", "-g -O1");
    assert_ne!(module.id, other.id);
    let why = format!("of another build ({})", other.id);
    module.assert_refused(Answer::file(&other.debug), LARGEST, &why);
    // Nor if another program put it into the cache; then it is asked for.
    let place = module.cache().join(&module.id);
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("debuginfo"), &other.debug).unwrap();
    let answer = Answer::file(&module.debug);
    let server = Server::start(move |_| answer.clone());
    assert_inlined(&module.ask(&server.url, LARGEST).0);
}

#[test]
fn a_file_that_is_too_large_is_refused_before_and_while_it_comes() {
    let module = Stripped::new("large", "-g -O2");
    let least = module.debug.len() - 1;
    let why = format!("larger than {least} bytes (DEBUGINFOD_MAXSIZE)");
    module.assert_refused(Answer::file(&module.debug), least, &why);
    module.assert_refused(Answer::unsized_file(&module.debug), least, &why);
}

#[test]
fn half_a_file_is_refused() {
    let module = Stripped::new("half", "-g -O2");
    let half = &module.debug[..module.debug.len() / 2];
    let Answer::Send(mut whole) = Answer::file(&module.debug) else { unreachable!() };
    whole.truncate(whole.len() - half.len());
    module.assert_refused(Answer::Send(whole), LARGEST, "its file ended after");
    module.assert_refused(Answer::unsized_file(half), LARGEST, "not a whole ELF file");
    module.assert_refused(Answer::file(b"<html>please log in</html>"), LARGEST, "not a whole ELF");
}

#[test]
fn what_no_server_has_is_asked_for_once_and_told() {
    let module = Stripped::new("absent", "-g -O2");
    module.assert_refused(Answer::status("404 Not Found"), LARGEST, "none of this build (404)");
    module.assert_refused(Answer::status("503 Busy"), LARGEST, "status 503");
    let server = Server::start(|_| Answer::status("404 Not Found"));
    let mut symbols = module.symbols(&server.url, LARGEST);
    module.fetch(&mut symbols, &mut |_| true);
    module.fetch(&mut symbols, &mut |_| true);
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn a_server_that_does_nothing_is_left_after_the_timeout_and_the_next_one_asked() {
    let mut module = Stripped::new("hanging", "-g -O2");
    module.patience = 1;
    let begun = Instant::now();
    let why = "less than 100 kB in 1 s";
    module.assert_refused(Answer::Hang(Vec::new()), LARGEST, why);
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nbytes".to_vec();
    module.assert_refused(Answer::Hang(head.clone()), LARGEST, why);
    module.assert_refused(Answer::Dribble(head), LARGEST, why);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());

    // The second one has to be in time.
    module.patience = 5;
    let answer = Answer::file(&module.debug);
    let (bad, good) =
        (Server::start(|_| Answer::Hang(Vec::new())), Server::start(move |_| answer.clone()));
    let (calls, _) = module.ask(&format!("{} {}", bad.url, good.url), LARGEST);
    assert_inlined(&calls);
}

#[test]
fn a_server_that_is_not_there_is_told_without_its_password() {
    let module = Stripped::new("nobody", "-g -O2");
    let (_, missing) = module.ask("http://me:secret@127.0.0.1:1/ nonsense", LARGEST);
    let why = &missing[0].why;
    assert!(why.contains("127.0.0.1:1: io: ") && !why.contains("secret"), "{why}");
    assert!(why.contains("nonsense: its name is not a URL"), "{why}");
}

#[test]
fn a_redirection_is_followed_but_not_for_ever() {
    let module = Stripped::new("redirected", "-g -O2");
    module.assert_refused(
        Answer::status("302 Found\r\nLocation: /"),
        LARGEST,
        "too many redirects",
    );
    let answer = Answer::file(&module.debug);
    let server = Server::start(move |path| match path {
        "/elsewhere" => answer.clone(),
        _ => Answer::status("302 Found\r\nLocation: /elsewhere"),
    });
    assert_inlined(&module.ask(&server.url, LARGEST).0);
}

#[test]
fn a_connection_that_a_server_breaks_after_an_answer_is_not_used_again() {
    let module = Stripped::new("broken-after", "-g -O2");
    let answer = Answer::file(&module.debug);
    let server = Server::start(move |path| {
        match (path, Answer::status("302 Found\r\nLocation: /elsewhere")) {
            ("/elsewhere", _) => answer.clone(),
            (_, Answer::Send(bytes)) => Answer::Break(bytes),
            (_, other) => other,
        }
    });
    assert_inlined(&module.ask(&server.url, LARGEST).0);
}

#[test]
fn one_without_patience_does_not_wait() {
    let module = Stripped::new("impatient", "-g -O2");
    let server = Server::start(|_| Answer::Hang(Vec::new()));
    let settings = module.settings(&server.url, LARGEST);
    let mut symbols = module.symbols(&server.url, LARGEST);
    symbols.modules.ask(Debuginfod::new(Some(settings)));
    let (begun, mut told) = (Instant::now(), Vec::new());
    module.fetch(&mut symbols, &mut |text| {
        told.push(text.to_owned());
        told.len() < 3
    });
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(told[0], "debug information: 0 of 1 files, 0 B");
    symbols.symbolize(BASE + module.start);
    assert!(symbols.missing()[0].why.ends_with("(debuginfod: interrupted)"));
}

#[test]
fn what_two_modules_have_in_common_is_fetched_too() {
    let folder = Folder::new("fetched-common");
    if !folder.has("dwz") {
        return folder::skip("no dwz here", "apt-get install dwz");
    }
    let types: String =
        (0..200).map(|n| format!("struct T{n} {{ int a{n}, b{n}; }} t{n};\n")).collect();
    let source = types
        + "int volatile sink;\nstatic inline __attribute__((always_inline)) void inner(int a) {\n\
           sink = a; }\nvoid outer(int a) {\nsink = 1;\ninner(a); }\n";
    fs::write(folder.0.join("a.c"), source).unwrap();
    for name in ["zoo.so", "other.so"] {
        let fixed = "-shared -fPIC -nostdlib -Wl,-z,noseparate-code -Wl,--build-id=sha1 -g -O2";
        folder.run(&format!("gcc {fixed} -o {name} a.c"));
    }
    folder.run("dwz -m common.debug -M common.debug zoo.so other.so");
    let start = folder.offset_of("zoo.so", "outer");
    folder.run("objcopy --only-keep-debug zoo.so zoo.away");
    folder.run("strip --strip-all zoo.so");
    let read = |name: &str| fs::read(folder.0.join(name)).unwrap();
    let (debug, common) = (read("zoo.away"), read("common.debug"));
    fs::remove_file(folder.0.join("common.debug")).unwrap();
    let id = BuildId::of_file(&fs::File::open(folder.0.join("zoo.so")).unwrap()).unwrap();
    let module = Stripped { folder, debug: debug.clone(), start, id: id.to_string(), patience: 60 };
    let own = format!("/buildid/{id}/debuginfo");
    let server =
        Server::start(move |path| Answer::file(if path == own { &debug } else { &common }));
    let (calls, missing) = module.ask(&server.url, LARGEST);
    assert_eq!((server.asked().len(), missing), (2, Vec::new()));
    let [inner, outer] = &calls[..] else { panic!("two calls: {calls:?}") };
    let told = [inner, outer].map(|call| call.function.as_deref());
    assert_eq!(told, [Some("inner"), Some("outer")]);
}
