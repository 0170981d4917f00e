//! What an agent tells over HTTP: of each process that is watched what `heapattach serve` tells, and figures of its
//! own. Threads of the server read recordings and what was told last: they wait for nothing of the agent's, and it for
//! nothing of theirs.

use std::{
    sync::{Arc, Mutex, PoisonError},
    thread::{Builder, JoinHandle},
};

use heapattach_agent::Serve;
use heapattach_serve::{
    Address, Door, Figure, Figures, Listener, Options, Server, Stop, Target, TargetList,
};

use crate::commands::serve::{check_token, door};

/// A server beside the agent.
#[derive(Debug)]
pub struct Routes {
    /// Where, as one asks there.
    pub url: String,
    targets: TargetList,
    told: Arc<Mutex<Vec<Figure>>>,
    stop: Stop,
    server: Arc<Server>,
    thread: JoinHandle<()>,
}

/// Whether what the file says is right; looks at nothing else.
pub fn check(serve: &Serve) -> Result<(), String> {
    address(serve).map(drop)
}

fn address(serve: &Serve) -> Result<Address, String> {
    let wrong = |why: String| format!("[serve] {why}");
    let address = Address::parse(&serve.listen).map_err(wrong)?;
    check_token(&address, serve.token_file.as_deref()).map_err(wrong)?;
    Ok(address)
}

impl Routes {
    /// Answers from now on.
    pub fn begin(serve: &Serve) -> Result<Self, String> {
        let failed = |why: String| format!("[serve] {why} (targets: untouched)");
        let at = address(serve)?;
        let door: Door =
            door(&at, serve.token_file.as_deref(), &serve.allow_host).map_err(failed)?;
        let listener = Listener::bind(&at).map_err(failed)?;
        let (url, targets, stop) = (listener.url(), TargetList::fleet(), Stop::default());
        let told = Arc::new(Mutex::new(Vec::new()));
        let read = told.clone();
        let figures = Figures::new(move || {
            let told = read.lock().unwrap_or_else(PoisonError::into_inner);
            told.clone()
        });
        let options =
            Options { targets: targets.clone(), show_args: false, door, figures: Some(figures) };
        let server = Server::new(options, stop.clone());
        let serving = server.clone();
        let thread = Builder::new().name("server".to_owned());
        let thread = thread.spawn(move || serving.run(&listener));
        let thread = thread.map_err(|error| failed(format!("no thread to serve: {error}")))?;
        Ok(Self { url, targets, told, stop, server, thread })
    }

    /// These are watched from now on.
    pub fn set(&self, targets: Vec<Arc<Target>>) {
        self.targets.set(targets);
    }

    /// The figures of the agent are these from now on.
    pub fn tell(&self, figures: Vec<Figure>) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = figures;
    }

    /// Has readers take what came last, and answers no more.
    pub fn end(self) {
        self.server.close();
        self.stop.set();
        let _ = self.thread.join();
    }
}
