//! What an agent that was killed has left: before anything new is done, it is cleaned up.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use heapattach_agent::{Attached, Key};
use heapattach_process::proc::status::stat_field;
use serde_json::json;

use super::{events::Events, look_lock, saved::Saved};

/// A session ends with its agent, by itself, in less.
const PATIENCE: Duration = Duration::from_secs(20);
/// A look ends by itself, too, when it has seen what it was to see.
const LOOK: Duration = Duration::from_secs(120);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether it is still there.
pub fn is_there(key: Key) -> bool {
    let stat = fs::read(format!("/proc/{}/stat", key.pid)).unwrap_or_default();
    let is_zombie = matches!(stat_field(&stat, 3), Some("Z" | "X"));
    !is_zombie && stat_field(&stat, 22).and_then(|text| text.parse().ok()) == Some(key.start)
}

/// Cleans up; what cannot be is answered, and is not attached to.
pub fn clean(saved: &mut Saved, state: &Path, events: Events) -> Result<(), String> {
    // One that was about to begin cannot be seen in its process yet.
    if !look_lock::wait(state, LOOK) {
        events.tell("left", json!({}), "a look of the agent that was killed has not ended");
    }
    let left: Vec<Attached> =
        saved.state.attached.iter().filter(|one| !one.is_over).cloned().collect();
    for one in left.iter().filter(|one| is_there(one.key())) {
        let of = json!({ "pid": one.pid, "rule": one.rule });
        match detach(one) {
            Ok(()) => {
                saved.state.detached(one.key());
                let told =
                    format!("process {} is as it was before the agent that was killed", one.pid);
                events.tell("cleaned", of, &told);
            }
            Err(why) => {
                let told = format!("process {} could not be cleaned up: {why}", one.pid);
                events.tell("left", of, &told);
            }
        }
        saved.write()?;
    }
    Ok(())
}

fn detach(one: &Attached) -> Result<(), String> {
    let began = Instant::now();
    loop {
        let file = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = Command::new(file);
        command.args(["detach", "-p", &one.pid.to_string()]).stdin(Stdio::null());
        let output = command.output().map_err(|error| error.to_string())?;
        if output.status.success() || !is_there(one.key()) {
            return Ok(());
        }
        // The session of the agent that was killed is about to end.
        if began.elapsed() > PATIENCE {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        sleep(PAUSE);
    }
}
