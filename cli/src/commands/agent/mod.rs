//! `heapattach agent`: looks at the machine, has decided what is to be watched, and does that.
//!
//! ```text
//! look (/proc) -> heapattach_agent::decide -> watch: sessions in processes of their own
//!                       dry_run: only says so \-> saved: the state, before anything is done
//!                                              \-> visit: looks that are due, one after the other
//! routes, figures: what is told over HTTP
//! ```

mod counted;
mod dry_run;
mod events;
mod figures;
mod leftovers;
mod look;
mod look_lock;
mod routes;
mod saved;
mod session;
mod share;
mod spool;
mod tidy;
mod usage;
mod visit;
mod watch;

use std::path::Path;

use heapattach_agent::Config;
use heapattach_files::input;

use crate::{args::AgentArgs, exit_status::Exit, output::complain};

use saved::Saved;

/// No honest file is larger.
const LONGEST_CONFIG: u64 = 256 << 10;

/// Watches until it is told to end.
pub fn agent(args: &AgentArgs) -> Exit {
    let config = match read(&args.config) {
        Ok(config) => config,
        Err(why) => {
            complain(&format!("{why} (targets: untouched)"));
            return Exit::Usage;
        }
    };
    let ended = match &args.allow {
        Some(name) => allow(&config, name),
        None if args.dry_run => dry_run::run(&config, args.json),
        None => watch::run(config, args),
    };
    ended.unwrap_or_else(|why| {
        complain(&why);
        Exit::Failed
    })
}

/// The file, if it is right.
fn read(path: &Path) -> Result<Config, String> {
    let text = input::text(path, LONGEST_CONFIG)?;
    let wrong = |error: String| format!("{}: {error}", path.display());
    let config = Config::parse(&text).map_err(wrong)?;
    config.serve.as_ref().map(routes::check).transpose().map_err(wrong)?;
    Ok(config)
}

fn allow(config: &Config, name: &str) -> Result<Exit, String> {
    let mut saved = Saved::open(&config.state)?;
    let number = saved.state.allow(name);
    saved.write()?;
    if number == 0 {
        complain(&format!("nothing is barred under the name `{name}`"));
        return Ok(Exit::Failed);
    }
    complain(&format!("`{name}` is allowed again"));
    Ok(Exit::Done)
}
