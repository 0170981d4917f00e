//! What readers say of our files that are pages, in a browser without a window, and the Firefox
//! Profiler's own code.

use heapattach_test_folder::skip;
use std::{
    fs,
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use serde_json::{Value, json};

use super::{
    Format,
    reader_cases::{Bytes, Shelf},
};
use heapattach_ledger::Metric;

/// What a browser makes of a page; `None` if there is none, which was said.
fn page(shelf: &Shelf, address: &str) -> Option<String> {
    let user = shelf.folder.join("user");
    let ask = format!(
        "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run \
         --disable-background-networking --allow-file-access-from-files --user-data-dir={} \
         --virtual-time-budget=20000 --dump-dom {address}",
        user.display()
    );
    shelf.ask("chromium", &ask, "apt-get install chromium")
}

/// What a person sees of it.
fn texts(page: &str) -> Vec<String> {
    let visible =
        page.split('<').filter(|tag| !tag.starts_with("script") && !tag.starts_with("style"));
    let texts = visible.filter_map(|tag| Some(tag.split_once('>')?.1.trim()));
    let plain = |text: &str| text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    texts.filter(|text| !text.is_empty()).map(plain).collect()
}

/// A text as an expression of a script that stands in a page.
fn script(text: &str) -> String {
    json!(text).to_string().replace('<', "\\u003c")
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let group = three.iter().fold(0, |group, byte| group << 8 | usize::from(*byte));
        let group = group << (8 * (3 - three.len()));
        for digit in 0..4 {
            let known = digit <= three.len();
            let digit = char::from(DIGITS[group >> (18 - 6 * digit) & 63]);
            text.push(if known { digit } else { '=' });
        }
    }
    text
}

/// What valgrind's viewer shows of our file; `None` if there is none, which was said.
pub(super) fn dh_view(shelf: &Shelf) -> Option<String> {
    let viewer = Path::new("/usr/libexec/valgrind");
    if !viewer.join("dh_view.html").exists() {
        skip("no dh_view.html here to show an export", "apt-get install valgrind");
        return None;
    }
    for name in ["dh_view.js", "dh_view.css"] {
        fs::copy(viewer.join(name), shelf.folder.join(name)).unwrap();
    }
    let file = fs::read_to_string(shelf.put(Format::Dhat, Metric::Live)).unwrap();
    let html = fs::read_to_string(viewer.join("dh_view.html")).unwrap();
    // As if a person had chosen the file.
    let load = format!(
        "<script>addEventListener('load', () => setTimeout(() => {{ \
         gInput = {{ files: [new File([{}], 'crowd')] }}; loadFile(); }}))</script></head>",
        script(&file)
    );
    let path = shelf.folder.join("dhat.html");
    fs::write(&path, html.replace("</head>", &load)).unwrap();
    let page = page(shelf, &format!("file://{}", path.display()))?;
    Some(texts(&page).join(" "))
}

#[test]
fn dh_view_tells_our_totals() {
    let shelf = Shelf::new("dhat");
    let Some(shown) = dh_view(&shelf) else { return };
    for (title, metric) in
        [("Total:", Metric::Allocated), ("At t-gmax:", Metric::Peak), ("At t-end:", Metric::Live)]
    {
        let (bytes, blocks) = shelf.total(metric);
        let told = shown.split_once(title).unwrap_or_else(|| panic!("{shown}")).1;
        let told: Vec<_> = told.split(' ').filter(|word| !word.is_empty()).take(7).collect();
        assert!(told.contains(&grouped(bytes).as_str()), "{title} {told:?}");
        let told = shown.split_once(title).unwrap().1.split(" in ").nth(1).unwrap().trim_start();
        assert!(told.starts_with(&format!("{} blocks (100%", grouped(blocks))), "{told}");
    }
    assert!(shown.contains("t-gmax: 40,000,000 us (66.67% of program duration)"), "{shown}");
}

/// `1,234,567`.
pub(super) fn grouped(number: u64) -> String {
    heapattach_text::quantity::count(number).replace(' ', ",")
}

#[test]
fn speedscope_tells_our_functions() {
    let shelf = Shelf::new("speedscope");
    let Some(modules) = shelf.ask("npm", "root -g", "apt-get install npm") else { return };
    let viewer = Path::new(modules.trim()).join("speedscope/dist/release/index.html");
    if !viewer.exists() {
        return skip("no speedscope here to show exports", "npm install -g speedscope");
    }
    // Binary units where it knows that it shows bytes.
    let binary = |bytes: u64| -> String {
        #[allow(clippy::cast_precision_loss)]
        let bytes = bytes as f64;
        format!("{:.2} MB", bytes / 1024.0 / 1024.0)
    };
    // Of the calls at one address it shows the outermost only.
    let shown = |stack| {
        let calls = shelf.ledger.calls(stack).skip(shelf.cause(stack));
        shelf.cause(stack) + calls.take_while(|call| call.is_inlined).count()
    };
    let causes = shelf.live_by_function(shown);
    speedscope(&shelf, &viewer, Format::Pprof, &causes, &binary);
    let innermost = shelf.live_by_function(|_| 0);
    speedscope(&shelf, &viewer, Format::Collapsed, &innermost, &grouped);
}

/// The table that speedscope begins with its largest functions.
fn speedscope(
    shelf: &Shelf,
    viewer: &Path,
    format: Format,
    wanted: &Bytes,
    shown: &dyn Fn(u64) -> String,
) {
    let file = fs::read(shelf.put(format, Metric::Live)).unwrap();
    let script = format!(
        "speedscope.loadFileFromBase64('crowd.{}', '{}')",
        format.extension(),
        base64(&file)
    );
    let path = shelf.folder.join("crowd.js");
    fs::write(&path, script).unwrap();
    let (viewer, path) = (viewer.display(), path.display());
    let address = format!("file://{viewer}#localProfilePath={path}&view=sandwich");
    let Some(page) = page(shelf, &address) else { return };
    let texts = texts(&page);
    // In all, itself, name.
    let rows = texts.windows(3).filter(|row| {
        row[0].ends_with("%)") && row[1].ends_with("%)") && row[2].starts_with("c_function_")
    });
    let mut seen = 0;
    for row in rows {
        let told = row[1].rsplit_once(' ').unwrap().0;
        assert_eq!(told, shown(wanted[&row[2]]), "{row:?}");
        seen += 1;
    }
    assert!(seen > 3, "{texts:?}");
}

#[test]
fn a_browser_shows_our_picture() {
    let shelf = Shelf::new("svg");
    let path = shelf.put(Format::Flamegraph, Metric::Live);
    let Some(page) = page(&shelf, &format!("file://{}", path.display())) else { return };
    let total = shelf.total(Metric::Live).0;
    assert!(page.contains(&format!("<title>all\n3.0 GiB ({total} bytes), 100.00 %</title>")));
    // What is wrong in a picture is left out with all that follows.
    let picture = fs::read_to_string(&path).unwrap();
    assert_eq!(page.matches("<rect").count(), picture.matches("<rect").count());
    assert!(!page.contains("parsererror"));
}

#[test]
fn the_firefox_profiler_tells_our_totals() {
    let shelf = Shelf::new("firefox");
    let threads = shelf.ledger.threads.len();
    let file = shelf.put(Format::Firefox, Metric::Live);
    let Some(totals) = firefox(&shelf, &file, threads) else { return };
    let mut wanted = vec![0; threads];
    for row in &shelf.ledger.rows {
        wanted[row.thread as usize] += row.sum(Metric::Live).parts().0.bytes;
    }
    assert_eq!(totals, wanted);
    // It makes threads of what DHAT tells.
    let file = shelf.put(Format::Dhat, Metric::Live);
    let totals = firefox(&shelf, &file, 4).unwrap();
    assert_eq!(totals[0], shelf.total(Metric::Allocated).0);
    assert_eq!(totals[2], shelf.total(Metric::Peak).0);
    assert_eq!(totals[3], shelf.total(Metric::Live).0);
}

/// The Firefox Profiler's code with a file; it ends with this.
struct Profiler<'a> {
    shelf: &'a Shelf,
    server: Child,
    session: String,
}

const PROFILER: &str = "npm install -g @firefox-devtools/profiler-cli";

/// The bytes of all functions of each thread.
pub(super) fn firefox(shelf: &Shelf, file: &Path, threads: usize) -> Option<Vec<u64>> {
    shelf.ask("profiler-cli", "--version", PROFILER)?;
    let profiler = Profiler::new(shelf, file);
    Some((0..threads).map(|thread| profiler.total(thread)).collect())
}

impl<'a> Profiler<'a> {
    fn new(shelf: &'a Shelf, file: &Path) -> Self {
        let session = file.file_name().unwrap().to_string_lossy().replace('.', "-");
        let load = format!("--daemon {} --session {session}", file.display());
        let server = shelf.command("profiler-cli", &load).stderr(Stdio::null()).spawn().unwrap();
        let profiler = Self { shelf, server, session };
        // A client that asks before the server listens takes it for dead, and removes its files.
        let log = shelf.folder.join(format!("sessions/{}.log", profiler.session));
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let said = fs::read_to_string(&log).unwrap_or_default();
            if said.contains("Profile loaded") {
                return profiler;
            }
            assert!(Instant::now() < deadline, "{said}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn total(&self, thread: usize) -> u64 {
        let session = &self.session;
        let ask = format!("thread functions --json --limit 1000000 --thread t-{thread}");
        let ask = format!("{ask} --session {session}");
        let told = self.shelf.ask("profiler-cli", &ask, PROFILER).unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        let functions = told["functions"].as_array().unwrap();
        functions.iter().filter_map(|function| function["selfSamples"].as_u64()).sum()
    }
}

impl Drop for Profiler<'_> {
    fn drop(&mut self) {
        // What ends it in time hands the signal on.
        let _ = signal::kill(Pid::from_raw(self.server.id().cast_signed()), Signal::SIGTERM);
        let _ = self.server.wait();
    }
}
