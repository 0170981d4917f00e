//! `--symbols server`: no names are sent, but addresses that name code to who has its file.

use std::{fs, process::Command};

use heapattach_tests::{
    command::Heapattach,
    compile::is_there,
    deadline::{PATIENCE, wait_until},
    skip::skip,
};
use nix::sys::signal::Signal;

use crate::{
    push_stub::{Manner, Stub},
    server::Served,
};

#[test]
fn who_has_the_file_names_the_code_and_no_name_is_sent() {
    if !is_there("addr2line") {
        return skip("no addr2line here, to name addresses", "apt-get install binutils");
    }
    let [parca, otlp] = [0; 2].map(|_| Stub::start(|_| Manner::Strict));
    let urls = [format!("parca+http://{}", parca.host), format!("otlp+http://{}", otlp.host)];
    let more = ["--push", &urls[0], "--push", &urls[1], "--push-every", "1s"];
    let words = [&more[..], &["--symbols", "server"]].concat();
    let Some(mut served) = Served::start(&words) else { return };
    let program = fs::read_link(format!("/proc/{}/exe", served.fixture.pid())).expect("ours");
    let bytes = served.keep(100);
    let stubs = [&parca, &otlp];
    wait_until("what is in use", PATIENCE, || {
        stubs.iter().all(|stub| stub.last("inuse_space") == bytes)
    });
    let taken = stubs.map(Stub::taken);
    for one in taken.iter().flatten().flat_map(|taken| &taken.profiles) {
        let has = |name: &str| one.names.iter().any(|told| told == name);
        assert!(!has("keep") && !has("main"), "{:?}", one.names);
        assert!(one.names.iter().any(|told| program.ends_with(told)), "{:?}", one.names);
    }
    // Parca takes them as they are: those of the file.
    let addresses: Vec<_> = taken[0].iter().flat_map(|taken| &taken.profiles).collect();
    let addresses = addresses.iter().flat_map(|one| &one.addresses);
    let named = addresses.map(|address| {
        let mut command = Command::new("addr2line");
        command.args(["-f", "-e"]).arg(&program).arg(format!("{address:#x}"));
        String::from_utf8_lossy(&command.output().expect("it is there").stdout).into_owned()
    });
    let named: Vec<_> = named.collect();
    assert!(named.iter().any(|told| told.starts_with("keep\n")), "{named:?}");
    served.running.signal(Signal::SIGTERM);
    served.running.wait().expect(0);
    served.fixture.finish();
    for stub in stubs {
        assert_eq!(stub.refused(), Vec::<String>::new());
    }
}

#[test]
fn a_backend_that_may_not_name_code_is_refused_by_name() {
    let words = ["serve", "-p", "1", "--symbols", "server", "--push", "pyroscope+http://a"];
    let refused = Heapattach::new(words).run().expect(2);
    let told = refused.stderr;
    assert!(told.contains("pyroscope") && told.contains("need parca+ or otlp+"), "{told}");
}
