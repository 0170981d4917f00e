//! Processor time of another process.

use std::time::Duration;

use nix::{
    sys::wait::{Id, WaitPidFlag, WaitStatus, waitid},
    time::ClockId,
    unistd::Pid,
};

use crate::deadline::{PATIENCE, poll};

/// How long all threads of a process, those that ended too, have had a processor.
///
/// # Errors
/// If it is gone.
pub(super) fn processor_time(pid: i32) -> Result<Duration, String> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(pid));
    let time = clock.and_then(ClockId::now);
    time.map(Duration::from).map_err(|error| format!("no processor time of {pid}: {error}"))
}

/// Waits for the end of a child and tells its processor time; it is still to be reaped.
///
/// # Errors
/// If it is none, or does not end.
pub(super) fn processor_time_at_end(pid: i32) -> Result<Duration, String> {
    let id = || Id::Pid(Pid::from_raw(pid));
    let how = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT | WaitPidFlag::WNOHANG;
    let end = poll(PATIENCE, || match waitid(id(), how) {
        Ok(WaitStatus::StillAlive) => None,
        other => Some(other),
    });
    end.ok_or("does not end")?.map_err(|error| error.to_string())?;
    processor_time(pid)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn an_ended_child_still_tells_its_time() {
        let work = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        let mut child = Command::new("sh").args(["-c", work]).spawn().unwrap();
        let time = processor_time_at_end(child.id().cast_signed()).unwrap();
        assert!(time > Duration::from_micros(500), "{time:?}");
        assert!(child.wait().unwrap().success());
        assert!(processor_time(child.id().cast_signed()).is_err());
    }
}
