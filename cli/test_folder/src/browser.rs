//! A real browser without a window, told what to do over two pipes: its DevTools protocol, one JSON
//! object after the other, each ended by a zero.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// Nothing that is asked of a browser takes so long.
const PATIENCE: Duration = Duration::from_secs(180);

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    session: Option<String>,
    asked: u64,
    /// What happened meanwhile: errors, requests.
    events: Vec<Value>,
    folder: PathBuf,
}

impl Browser {
    /// Starts one; `None` if there is none on this machine.
    pub fn start(name: &str) -> Option<Self> {
        if Command::new("chromium").arg("--version").stderr(Stdio::null()).output().is_err() {
            return None;
        }
        let folder = std::env::temp_dir().join(format!("heapattach-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        // The pipes must be its descriptors 3 and 4, which a shell can give away.
        let script = "exec 3<&0 4>&1 </dev/null >/dev/null 2>&1; exec chromium \"$@\"";
        let mut child = Command::new("sh")
            .args(["-c", script, "sh", "--headless=new", "--remote-debugging-pipe", "--no-sandbox"])
            .args(["--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-sync"])
            .args(["--disable-background-networking", "--disable-component-update"])
            .arg(format!("--user-data-dir={}", folder.join("user").display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let (send, from) = channel();
        std::thread::spawn(move || {
            for answer in answers.split(0).map_while(Result::ok) {
                let _ = serde_json::from_slice(&answer).map(|answer| send.send(answer));
            }
        });
        let events = Vec::new();
        let mut browser = Self { child, to, from, session: None, asked: 0, events, folder };
        let target = browser.ask("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.ask("Target.attachToTarget", attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser.ask("Performance.enable", json!({ "timeDomain": "threadTicks" }));
        browser.size(1400, 1000);
        Some(browser)
    }

    /// Sends a command, and waits for its result.
    pub fn ask(&mut self, method: &str, parameters: Value) -> Value {
        self.asked += 1;
        let mut message = json!({ "id": self.asked, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut answer =
                self.from.recv_timeout(left).unwrap_or_else(|e| panic!("{method}: {e}"));
            if answer["id"] == json!(self.asked) {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].take();
            }
            self.events.push(answer);
        }
    }

    /// Opens an address, and waits until the script of its page has run.
    pub fn go(&mut self, url: &str) {
        self.ask("Page.navigate", json!({ "url": url }));
        self.until("document.documentElement?.dataset.ready === 'true'");
    }

    /// Opens a page whose script may not run.
    pub fn show(&mut self, page: &[u8]) {
        self.load(page, "");
    }

    /// Opens a page, and waits until its script has run. Gives the time that took.
    pub fn open(&mut self, page: &[u8]) -> Duration {
        self.open_at(page, "")
    }

    /// The same with what stands behind its address, from `#` on.
    pub fn open_at(&mut self, page: &[u8], hash: &str) -> Duration {
        let began = self.load(page, hash);
        self.until("document.documentElement?.dataset.ready === 'true'");
        began.elapsed()
    }

    fn load(&mut self, page: &[u8], hash: &str) -> Instant {
        let path = self.folder.join("page.html");
        fs::write(&path, page).unwrap();
        // Else another hash is another place in the page that is there.
        self.ask("Page.navigate", json!({ "url": "about:blank" }));
        self.until("location.href === 'about:blank'");
        let began = Instant::now();
        self.ask("Page.navigate", json!({ "url": format!("file://{}{hash}", path.display()) }));
        began
    }

    /// What an expression says in the page.
    pub fn tell(&mut self, expression: &str) -> Value {
        let ask = json!({ "expression": expression, "returnByValue": true });
        let mut told = self.ask("Runtime.evaluate", ask);
        assert!(told.get("exceptionDetails").is_none(), "{expression}: {told}");
        told["result"]["value"].take()
    }

    /// The text of the first element that a selector means.
    pub fn text(&mut self, selector: &str) -> String {
        let told = self.tell(&format!("document.querySelector({}).textContent", json!(selector)));
        told.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.tell(expression) != json!(true) {
            // A script that breaks off makes nothing true any more.
            let broken = |event: &Value| event["method"] == "Runtime.exceptionThrown";
            let is_broken = self.events.iter().any(broken);
            assert!(!is_broken, "not {expression}: {:?}", self.complaints());
            assert!(Instant::now() < deadline, "never: {expression}; {:?}", self.complaints());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Where the middle of an element is on the screen.
    pub fn middle(&mut self, selector: &str) -> (f64, f64) {
        let box_of = format!(
            "(() => {{ const e = document.querySelector({}); e.scrollIntoView({{ block: 'center' }}); \
             const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()",
            json!(selector)
        );
        let told = self.tell(&box_of);
        (told[0].as_f64().unwrap(), told[1].as_f64().unwrap())
    }

    /// Clicks as a person would.
    pub fn click(&mut self, selector: &str) {
        let at = self.middle(selector);
        self.mouse("mouseMoved", at);
        self.mouse("mousePressed", at);
        self.mouse("mouseReleased", at);
    }

    /// `mousePressed`, `mouseMoved`, `mouseReleased`.
    pub fn mouse(&mut self, what: &str, (x, y): (f64, f64)) {
        let held = json!({ "type": what, "x": x, "y": y, "button": "left", "buttons": 1, "clickCount": 1 });
        self.ask("Input.dispatchMouseEvent", held);
    }

    /// Presses a key by its name.
    pub fn key(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => 0,
        };
        for what in ["keyDown", "keyUp"] {
            let mut pressed =
                json!({ "type": what, "key": key, "code": key, "windowsVirtualKeyCode": code });
            // Without this a button does not take it for a click.
            if (key, what) == ("Enter", "keyDown") {
                pressed["text"] = json!("\r");
            }
            self.ask("Input.dispatchKeyEvent", pressed);
        }
    }

    /// Types a text where the cursor is.
    pub fn write(&mut self, text: &str) {
        self.ask("Input.insertText", json!({ "text": text }));
    }

    /// Makes the window so large.
    pub fn size(&mut self, width: u32, height: u32) {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.ask("Emulation.setDeviceMetricsOverride", size);
    }

    /// What the system prefers, and whether the page is on `screen` or in `print`.
    pub fn prefer(&mut self, scheme: &str, media: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.ask("Emulation.setEmulatedMedia", json!({ "media": media, "features": features }));
    }

    /// Seconds of processor time that the page took so far: other programs beside it do not change it much.
    pub fn work(&mut self) -> f64 {
        let told = self.ask("Performance.getMetrics", json!({}));
        let all = told["metrics"].as_array().unwrap();
        let tasks = all.iter().find(|metric| metric["name"] == "TaskDuration").unwrap();
        tasks["value"].as_f64().unwrap()
    }

    /// Errors, breaches of the policy, and requests for anything but the page itself.
    pub fn complaints(&mut self) -> Vec<String> {
        // What was reported before this answer has arrived with it.
        self.ask("Runtime.evaluate", json!({ "expression": "0" }));
        let is_bad = |event: &&Value| {
            let parameters = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" | "Page.javascriptDialogOpening" => true,
                // Below errors there is advice on speed.
                "Log.entryAdded" => parameters["entry"]["level"] == "error",
                "Runtime.consoleAPICalled" => parameters["type"] != "log",
                "Network.requestWillBeSent" => !["/page.html", "about:blank"].iter().any(|known| {
                    parameters["request"]["url"].as_str().unwrap_or_default().ends_with(known)
                }),
                _ => false,
            }
        };
        self.events.iter().filter(is_bad).map(ToString::to_string).collect()
    }

    /// A picture of the whole page, as PNG.
    pub fn picture(&mut self, is_whole: bool) -> Vec<u8> {
        let ask = json!({ "format": "png", "captureBeyondViewport": is_whole });
        let told = self.ask("Page.captureScreenshot", ask);
        decoded(told["data"].as_str().unwrap_or_default())
    }

    /// Saves a picture in the folder that the user named in `HEAPATTACH_PICTURES`, if any.
    pub fn keep_picture(&mut self, name: &str, is_whole: bool) -> usize {
        self.tell("scrollTo(0, 0)");
        let picture = self.picture(is_whole);
        if let Some(folder) = std::env::var_os("HEAPATTACH_PICTURES") {
            fs::create_dir_all(&folder).unwrap();
            fs::write(Path::new(&folder).join(format!("{name}.png")), &picture).unwrap();
        }
        picture.len()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn decoded(base64: &str) -> Vec<u8> {
    let value = |digit: u8| match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u8> = base64.bytes().filter(|&digit| digit != b'=').map(value).collect();
    let of_four = |four: &[u8]| {
        let bits = four
            .iter()
            .enumerate()
            .fold(0_u32, |bits, (at, &digit)| bits | u32::from(digit) << (26 - 6 * at));
        bits.to_be_bytes()[..four.len() - 1].to_vec()
    };
    digits.chunks(4).filter(|four| four.len() > 1).flat_map(of_four).collect()
}
