//! A probe of the kernel's own in a function of a process, as tracing tools set it.
//!
//! # Safety
//!
//! perf_event_open is handed a structure that outlives the call, and gives a descriptor.
#![allow(unsafe_code)]

use std::{
    ffi::CString,
    fs, io,
    os::fd::{FromRawFd, OwnedFd},
};

use nix::libc;

/// A breakpoint the kernel keeps in one process until this is dropped.
#[derive(Debug)]
pub struct Uprobe {
    _event: OwnedFd,
}

/// `struct perf_event_attr` as it was when it first could name a probe.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    path: u64,
    offset: u64,
}

const _: () = assert!(size_of::<Attributes>() == 72);

impl Uprobe {
    /// Sets a probe at `offset` of the file `path`, in the process `pid` only.
    ///
    /// # Errors
    /// If the kernel has no probes or does not let us.
    pub fn set(pid: i32, path: &str, offset: u64) -> io::Result<Self> {
        let kind = fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
        let kind = kind.trim().parse().map_err(io::Error::other)?;
        let path = CString::new(path)?;
        let attributes = Attributes {
            kind,
            size: 72,
            config: 0,
            sample_period: 1,
            sample_type: 0,
            read_format: 0,
            flags: 0,
            wakeup: 1,
            breakpoint: 0,
            path: path.as_ptr() as u64,
            offset,
        };
        let any_cpu = -1;
        let no_group = -1;
        let number = libc::SYS_perf_event_open;
        // SAFETY: `attributes` and the path it points to live until after the call, and `size`
        // tells the kernel how much of it there is.
        let fd = unsafe {
            libc::syscall(number, &raw const attributes, pid, any_cpu, no_group, 0_usize)
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = i32::try_from(fd).map_err(io::Error::other)?;
        // SAFETY: a descriptor the kernel just gave us, owned by nothing else.
        let event = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { _event: event })
    }
}
