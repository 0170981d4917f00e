//! What a scrape of a session costs that has lasted for hours.
//!
//! ```text
//! cargo test --release -p heapattach-serve --test scrape -- --ignored --nocapture
//! ```

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
    thread,
    time::Duration,
};

use heapattach_recording::sample::long_session;
use heapattach_serve::{Address, Door, Listener, Options, Server, Stop, Target};
use heapattach_test_folder::Folder;
use nix::time::{ClockId, clock_gettime};

const HOURS: u64 = 4;
/// Samples of 20 MiB a second at one in 512 KiB.
const A_SECOND: u64 = 40;
/// What `serve` has by default.
const LIMIT: u64 = 16 << 20;
/// What was read serves for half a second.
const APART: Duration = Duration::from_secs(2);
const TURNS: usize = 7;

fn get(host: &str, path: &str) -> usize {
    let mut stream = TcpStream::connect(host).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    answer.len()
}

/// Of this process: of its threads one asks, and those of the server answer.
fn processor_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("a clock of this process").into()
}

#[test]
#[ignore = "a benchmark: it tells figures and judges none"]
fn a_scrape_of_a_session_of_four_hours() {
    for stacks in [1000, 10_000] {
        let folder = Folder::new("scrape");
        let path = folder.0.join("long.heapattach");
        long_session(&path, HOURS, A_SECOND, stacks, LIMIT);
        let size = std::fs::metadata(&path).expect("it was written").len();
        let target = Arc::new(Target::new(7, "service".to_owned(), path, true));
        let stop = Stop::default();
        let door = Door { hosts: Vec::new(), token: None, is_public: false, link: None };
        let options =
            Options { targets: vec![target].into(), show_args: true, door, figures: None };
        let server = Server::new(options, stop.clone());
        let at = Address::Tcp("127.0.0.1:0".parse().expect("an address"));
        let listener = Listener::bind(&at).expect("a port");
        let host = listener.url().replace("http://", "");
        let serving = thread::spawn(move || server.run(&listener));
        for path in ["/metrics", "/debug/pprof/heap"] {
            let mut times: Vec<Duration> = Vec::new();
            let mut length = 0;
            for _ in 0..TURNS {
                thread::sleep(APART);
                let before = processor_time();
                length = get(&host, path);
                times.push(processor_time() - before);
            }
            times.sort_unstable();
            println!(
                "{stacks} stacks, file of {size} bytes, {path} of {length}: best {:.3?}, median {:.3?}",
                times[0],
                times[TURNS / 2]
            );
        }
        stop.set();
        serving.join().expect("it ends");
    }
}
