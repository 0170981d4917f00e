//! Programs that are no interpreters and run scripts of Lua within: the line of the script that leaks is named.

use std::{
    fs,
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use heapattach_test_folder::Folder;
use heapattach_tests::{
    command::Heapattach,
    compile::fixture,
    deadline::{PATIENCE, wait_until},
    real::{StartError, installed, redis},
    skip::skip,
};

use super::server::while_asked;

pub struct Running(Child);

impl Running {
    /// Its number.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// What an attach of some seconds tells of a process that is asked all the time, its words one behind the other; and how
/// often it was asked.
fn told_under_load(pid: u32, ask: impl Fn(u64) + Sync) -> (String, u64) {
    let pid = pid.to_string();
    let session = ["-p", &pid, "--duration", "4s", "--every", "16KiB", "--no-record"];
    let session = Heapattach::new(session).limit(Duration::from_secs(60));
    let (outcome, asked) = while_asked(ask, || session.run());
    let told = outcome.expect(0).stdout;
    println!("{asked} answers\n{told}");
    (told.split_whitespace().collect::<Vec<_>>().join(" "), asked)
}

/// What a server of HTTP answers.
fn answer(socket: &Path, path: &str) -> String {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    let request = format!("GET {path} HTTP/1.0\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// In one of its own threads, in Lua's coroutines.
pub fn haproxy(folder: &Path) -> Option<(Running, PathBuf)> {
    let Some(program) = installed("haproxy") else {
        skip("no haproxy here", "apt-get install haproxy");
        return None;
    };
    let (socket, settings) = (folder.join("socket"), folder.join("settings"));
    let script = fixture("haproxy_application.lua");
    let text = format!(
        "global\n  lua-load {}\n  nbthread 1\ndefaults\n  mode http\n  timeout client 60s\n  timeout connect 60s\n  \
         timeout server 60s\nfrontend all\n  bind unix@{}\n  http-request use-service lua.application\n",
        script.display(),
        socket.display()
    );
    fs::write(&settings, text).expect("a folder of ours");
    let mut command = Command::new(program);
    command.args(["-db", "-q", "-f"]).arg(settings).stderr(Stdio::null());
    let running = Running(command.spawn().expect("haproxy"));
    wait_until("haproxy's socket", PATIENCE, || UnixStream::connect(&socket).is_ok());
    Some((running, socket))
}

/// Its answer has to be right.
pub fn ask_haproxy(socket: &Path, number: u64) {
    let answer = answer(socket, &format!("/item/{number}"));
    assert!(answer.ends_with(&format!("\r\n\r\n/item/{number} 20870")), "{answer}");
}

#[test]
fn a_haproxy_under_load_names_the_line_of_its_script_that_leaks() {
    let folder = Folder::new("haproxy");
    let Some((running, socket)) = haproxy(&folder.0) else { return };
    let text = fs::read_to_string(fixture("haproxy_application.lua")).expect("a fixture");
    let line = text.lines().position(|line| line.contains("-- the leak")).expect("a leak") + 1;
    let (told, _) = told_under_load(running.pid(), |number| ask_haproxy(&socket, number));
    let place = format!("function <haproxy_application.lua:4> (haproxy_application.lua:{line})");
    assert!(told.contains(&place), "no {place}");
    assert!(told.contains("Lua 5.3"), "{told}");
}

/// Where Debian has what runs Lua in nginx, and what that needs.
const MODULES: [&str; 2] =
    ["/usr/lib/nginx/modules/ndk_http_module.so", "/usr/lib/nginx/modules/ngx_http_lua_module.so"];

/// In a process of its own, without code that LuaJIT has compiled.
pub fn nginx(folder: &Path) -> Option<(Running, PathBuf)> {
    let are_there = MODULES.iter().all(|module| Path::new(module).exists());
    let Some(program) = installed("nginx").filter(|_| are_there) else {
        skip("no nginx with Lua here", "apt-get install nginx-light libnginx-mod-http-lua");
        return None;
    };
    let (socket, settings) = (folder.join("socket"), folder.join("settings"));
    let script = fixture("nginx_application.lua");
    let text = format!(
        "load_module {};\nload_module {};\ndaemon off;\nmaster_process off;\npid {}/pid;\nerror_log stderr;\n\
         events {{}}\nhttp {{\n  access_log off;\n  init_by_lua_block {{ jit.off() }}\n  \
         lua_package_path '{}/?.lua;;';\n  server {{\n    listen unix:{};\n    location / {{\n      \
         content_by_lua_block {{ require('nginx_application').answer() }}\n    }}\n  }}\n}}\n",
        MODULES[0],
        MODULES[1],
        folder.display(),
        script.parent().expect("a folder").display(),
        socket.display()
    );
    fs::write(&settings, text).expect("a folder of ours");
    let mut command = Command::new(program);
    command.arg("-p").arg(folder).arg("-c").arg(&settings).stderr(Stdio::null());
    let running = Running(command.spawn().expect("nginx"));
    wait_until("nginx's socket", PATIENCE, || UnixStream::connect(&socket).is_ok());
    Some((running, socket))
}

/// Its answer has to be right.
pub fn ask_nginx(socket: &Path, number: u64) {
    let path = format!("/item/{number}");
    let answer = answer(socket, &path);
    let length = (2000 * path.len()).to_string();
    assert!(answer.ends_with(&format!("\r\n\r\n{length}")), "{answer}");
}

/// LuaJIT maps the memory of its objects itself: the pages that the leak takes are told by the line of the script.
#[test]
fn an_nginx_under_load_names_the_line_of_its_script_that_leaks() {
    let folder = Folder::new("nginx");
    let Some((running, socket)) = nginx(&folder.0) else { return };
    let text = fs::read_to_string(fixture("nginx_application.lua")).expect("a fixture");
    let line = text.lines().position(|line| line.contains("-- the leak")).expect("a leak") + 1;
    let (told, _) = told_under_load(running.pid(), |number| ask_nginx(&socket, number));
    let place = format!("function <nginx_application.lua:5> (nginx_application.lua:{line})");
    assert!(told.contains(&place), "no {place}");
    assert!(told.contains("LuaJIT 2.1"), "{told}");
}

/// Its Lua is in the program itself.
#[test]
fn what_scripts_of_redis_store_is_told_by_their_lines() {
    let server = match redis::start() {
        Ok(server) => server,
        Err(StartError::Missing(cure)) => return skip("no redis here", cure),
        Err(StartError::Failed(why)) => panic!("redis does not start: {why}"),
    };
    let script = "local function store(key)\n  redis.call('SET', key, string.rep('x', 20000))\nend\n\
                  for number = 1, 50 do store(KEYS[1] .. number) end\nreturn 'stored'\n";
    let socket = redis::socket(&server);
    let stream = UnixStream::connect(&socket).expect("redis listens");
    let ask = |number: u64| {
        let key = format!("key:{}:", number % 64);
        let words = ["EVAL", script, "1", &key];
        let words = words.map(|word| format!("${}\r\n{word}\r\n", word.len())).concat();
        (&stream).write_all(format!("*4\r\n{words}").as_bytes()).expect("redis reads");
        let mut answer = [0; 12];
        (&stream).read_exact(&mut answer).expect("redis answers");
        assert_eq!(&answer, b"$6\r\nstored\r\n");
    };
    let pid = u32::try_from(server.pid()).expect("a process");
    let (told, _) = told_under_load(pid, ask);
    let place = "function <user_script:1> (user_script:2)";
    assert!(told.contains(place), "no {place}");
}
