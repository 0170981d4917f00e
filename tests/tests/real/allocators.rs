//! Servers with an allocator that is not the C library's: what each request asked for is told to the
//! byte.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    thread,
    time::Duration,
};

use heapattach_tests::{
    attached::Attached,
    command::Hooks,
    deadline::{PATIENCE, wait_until},
    real::{Server, StartError, echo, redis},
    report::Function,
    skip::skip,
    toolchain::rust_with_crates,
    truth::{Account, EXACT, reported, whole},
};

const CLIENTS: u32 = 4;
const MESSAGES: u32 = 300;

fn attach(pid: i32) -> Attached {
    let command = Attached::command(pid, Hooks::Auto);
    let command = EXACT.iter().fold(command, |command, option| command.arg(*option));
    Attached::open(command).unwrap_or_else(|why| panic!("{why}"))
}

/// All clients at the same time.
fn talk(server: &Server) -> echo::Sent {
    let sent = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| scope.spawn(move || echo::talk(server, client, MESSAGES)))
            .collect();
        clients.into_iter().map(|client| client.join().expect("no panic")).collect::<Vec<_>>()
    });
    sent.into_iter().fold(echo::Sent::default(), |sum, sent| {
        let sent = sent.unwrap_or_else(|error| panic!("the server answered wrongly: {error}"));
        echo::Sent { messages: sum.messages + sent.messages, bytes: sum.bytes + sent.bytes }
    })
}

fn every_message_is_told(program: &str) {
    let Some(program) = rust_with_crates(program) else { return };
    let mut server = echo::start(&program).expect("a server of ours starts");
    talk(&server);
    for _ in 0..2 {
        let attached = attach(server.pid());
        let sent = talk(&server);
        // A message is freed after its answer was sent.
        thread::sleep(Duration::from_millis(50));
        let report = attached.end();
        assert!(report.is_complete(), "lost {:?}", report.heap.lost);
        let name = "site_message".to_owned();
        let truth = BTreeMap::from([(name.clone(), Account::default())]);
        let wanted = Account { blocks: sent.messages, bytes: sent.bytes, live: 0, live_bytes: 0 };
        assert_eq!(reported(&report, &truth)[&name], wanted, "{program:?}");
    }
    talk(&server);
    assert!(server.is_alive(), "{program:?} died");
}

#[test]
fn a_rust_server_with_jemalloc_is_told_of_message_by_message() {
    every_message_is_told("echo-jemalloc");
}

#[test]
fn a_rust_server_with_mimalloc_is_told_of_message_by_message() {
    every_message_is_told("echo-mimalloc");
}

/// Asks redis for something, and returns the first line of its answer.
fn ask(stream: &mut BufReader<UnixStream>, words: &[&str]) -> String {
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request += &format!("${}\r\n{word}\r\n", word.len());
    }
    stream.get_mut().write_all(request.as_bytes()).expect("the server reads");
    let mut line = String::new();
    stream.read_line(&mut line).expect("the server answers");
    line.trim_end().to_owned()
}

const KEYS: u64 = 500;
const VALUE: u64 = 3000;
/// What a value's block has besides: its length, an end, and the block of its key.
const MORE: u64 = 40;
/// Blocks of that place that are none of the values: buffers of its own.
const OTHERS: u64 = 4;

#[test]
fn what_redis_keeps_is_what_it_was_given() {
    let mut server = match redis::start() {
        Ok(server) => server,
        Err(StartError::Missing(cure)) => return skip("no redis here", cure),
        Err(StartError::Failed(why)) => panic!("redis does not start: {why}"),
    };
    let stream = UnixStream::connect(redis::socket(&server)).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time that is not zero");
    let mut stream = BufReader::new(stream);
    let value: String = (0..VALUE).map(|_| 'v').collect();
    // Its buffers have grown, and nothing of a key's size is allocated for them any more.
    wait_until("redis", PATIENCE, || ask(&mut stream, &["SET", "first", &value]) == "+OK");
    let attached = attach(server.pid());
    for key in 0..KEYS {
        assert_eq!(ask(&mut stream, &["SET", &format!("key:{key}"), &value]), "+OK");
    }
    for key in 0..KEYS / 2 {
        assert_eq!(ask(&mut stream, &["DEL", &format!("key:{key}")]), ":1");
    }
    let report = attached.end();
    assert!(report.is_complete(), "lost {:?}", report.heap.lost);
    let kept = KEYS - KEYS / 2;
    // The site that holds most holds the values: one block each, and perhaps one for its key.
    let site = report.heap.sites.first().expect("something was kept");
    let (blocks, bytes) = (whole(site.live.blocks.value), whole(site.live.bytes.value));
    // A value that is being replaced may be there, too.
    assert!(blocks % kept <= OTHERS, "{site:#?}");
    let most = (kept + OTHERS) * (VALUE + MORE);
    assert!((kept * VALUE..most).contains(&bytes), "{site:#?}");
    let by_jemalloc = |f: &Function| f.module.contains("jemalloc");
    let calls = report.functions.iter().filter(|f| by_jemalloc(f)).map(|f| f.calls).sum::<u64>();
    if calls == 0 {
        skip("this redis has another allocator", "the package of Debian links jemalloc");
    }
    assert!(server.is_alive(), "redis died");
}
