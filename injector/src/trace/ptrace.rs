//! The ptrace requests we use, each a method of its own of the [`Tracer`] that makes them, nearly each
//! of which a test can make fail.
//!
//! Requests go to a thread that this process has seized; what the kernel answers for a thread that
//! is gone, or not stopped, is `ESRCH` in both cases.
//!
//! # Safety
//! ptrace reads and writes our memory through raw pointers: every pointer passed here is to a
//! local of the size the request asks for.
#![allow(unsafe_code)]

use std::{ffi::c_void, ptr};

use nix::{
    errno::Errno,
    sys::ptrace::{self, Options},
    unistd::Pid,
};

use crate::arch::{self, Registers, SignalMask};
use crate::trace::{brief_seize, delegated::Effect, tracer::Tracer};
use heapattach_process::{addr::RemoteAddr, fault::point};

/// How the C library has a request; they disagree on its sign.
#[cfg(target_env = "musl")]
type Request = libc::c_int;
#[cfg(not(target_env = "musl"))]
type Request = libc::c_uint;

const PTRACE_GETSIGMASK: Request = 0x420a;
const PTRACE_SETSIGMASK: Request = 0x420b;

impl Tracer {
    /// `PTRACE_SEIZE`: trace without stopping.
    ///
    /// # Errors
    /// `EPERM` if it may not be traced, or is traced already; `EINTR` if it becomes another program, or if
    /// it took too long.
    pub fn seize(&self, tid: i32, options: Options) -> Result<(), Errno> {
        point("PTRACE_SEIZE")?;
        self.tell(tid, Effect::Lends, move || brief_seize::seize(tid, options))
    }

    /// `PTRACE_INTERRUPT`: stop it soon, without a signal.
    ///
    /// # Errors
    /// `ESRCH` if it is gone.
    pub fn interrupt(&self, tid: i32) -> Result<(), Errno> {
        point("PTRACE_INTERRUPT")?;
        self.tell(tid, Effect::Interrupts, move || ptrace::interrupt(Pid::from_raw(tid)))
    }

    /// `PTRACE_DETACH`: let it run, untraced.
    ///
    /// # Errors
    /// `ESRCH` if it is gone or not stopped.
    pub fn detach(&self, tid: i32, signal: i32) -> Result<(), Errno> {
        point("PTRACE_DETACH")?;
        let data = signal.unsigned_abs() as usize;
        self.tell(tid, Effect::GivesBack(signal), move || {
            request(libc::PTRACE_DETACH, tid, 0, data)
        })
    }

    /// `PTRACE_CONT`, delivering `signal` unless 0.
    ///
    /// # Errors
    /// `ESRCH` if it is gone or not stopped.
    pub fn resume(&self, tid: i32, signal: i32) -> Result<(), Errno> {
        point("PTRACE_CONT")?;
        let data = signal.unsigned_abs() as usize;
        self.tell(tid, Effect::Runs, move || request(libc::PTRACE_CONT, tid, 0, data))
    }

    /// `PTRACE_SYSCALL`: run to the next system call stop, delivering `signal` unless 0.
    ///
    /// # Errors
    /// `ESRCH` if it is gone or not stopped.
    pub fn resume_to_syscall(&self, tid: i32, signal: i32) -> Result<(), Errno> {
        point("PTRACE_SYSCALL")?;
        let data = signal.unsigned_abs() as usize;
        self.tell(tid, Effect::Runs, move || request(libc::PTRACE_SYSCALL, tid, 0, data))
    }

    /// `PTRACE_GETREGS`.
    ///
    /// # Errors
    /// `ESRCH` if it is gone or not stopped.
    pub fn registers(&self, tid: i32) -> Result<Registers, Errno> {
        point("PTRACE_GETREGS")?;
        self.ask(tid, move || ptrace::getregs(Pid::from_raw(tid)))
    }

    /// `PTRACE_SETREGS`.
    ///
    /// # Errors
    /// `ESRCH` if it is gone or not stopped.
    pub fn set_registers(&self, tid: i32, registers: &Registers) -> Result<(), Errno> {
        point("PTRACE_SETREGS")?;
        let registers = *registers;
        self.ask(tid, move || ptrace::setregs(Pid::from_raw(tid), registers))
    }

    /// `PTRACE_GETSIGMASK`: the mask the program set, even inside a call that swapped it.
    ///
    /// # Errors
    /// `ESRCH` if it is gone or not stopped.
    pub fn signal_mask(&self, tid: i32) -> Result<SignalMask, Errno> {
        point("PTRACE_GETSIGMASK")?;
        self.ask(tid, move || {
            let mut mask: SignalMask = 0;
            let at = (&raw mut mask).expose_provenance();
            request(PTRACE_GETSIGMASK, tid, size_of::<SignalMask>(), at)?;
            Ok(mask)
        })
    }

    /// `PTRACE_SETSIGMASK`.
    ///
    /// # Errors
    /// `ESRCH` if it is gone or not stopped.
    pub fn set_signal_mask(&self, tid: i32, mask: SignalMask) -> Result<(), Errno> {
        point("PTRACE_SETSIGMASK")?;
        self.ask(tid, move || {
            let at = (&raw const mask).expose_provenance();
            request(PTRACE_SETSIGMASK, tid, size_of::<SignalMask>(), at)
        })
    }

    /// `PTRACE_GETREGSET` of the vector state, as the processor stores it.
    ///
    /// # Errors
    /// `ESRCH` if it is gone or not stopped.
    pub fn vector_state(&self, tid: i32) -> Result<Vec<u8>, Errno> {
        point("PTRACE_GETREGSET")?;
        self.ask(tid, move || {
            let mut state = vec![0_u8; arch::VECTOR_STATE_LIMIT];
            let mut io = libc::iovec { iov_base: state.as_mut_ptr().cast(), iov_len: state.len() };
            let at = (&raw mut io).expose_provenance();
            request(libc::PTRACE_GETREGSET, tid, arch::VECTOR_STATE, at)?;
            state.truncate(io.iov_len);
            Ok(state)
        })
    }

    /// `PTRACE_GET_RSEQ_CONFIGURATION`: where the thread keeps its restartable sequence, or 0.
    ///
    /// # Errors
    /// `EIO` below Linux 5.13.
    pub fn rseq_area(&self, tid: i32) -> Result<u64, Errno> {
        point("PTRACE_GET_RSEQ_CONFIGURATION")?;
        const PTRACE_GET_RSEQ_CONFIGURATION: Request = 0x420f;
        self.ask(tid, move || {
            let mut configuration = [0_u64; 3];
            let length = size_of_val(&configuration);
            let at = (&raw mut configuration).expose_provenance();
            request(PTRACE_GET_RSEQ_CONFIGURATION, tid, length, at)?;
            Ok(configuration[0])
        })
    }

    /// `PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG`: whether the thread's system calls may be given back to
    /// the program.
    ///
    /// # Errors
    /// `EIO` below Linux 6.4, `ESRCH` if it is gone or not stopped.
    pub(crate) fn user_dispatch(&self, tid: i32) -> Result<bool, Errno> {
        point("PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG")?;
        const PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG: Request = 0x4211;
        self.ask(tid, move || {
            // Whether it is on, where its switch lies, and the range of code that it is not for.
            let mut configuration = [0_u64; 4];
            let length = size_of_val(&configuration);
            let at = (&raw mut configuration).expose_provenance();
            request(PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG, tid, length, at)?;
            Ok(configuration[0] != 0)
        })
    }

    /// `PTRACE_LISTEN`: leave it stopped as its process is, and hear of it when that ends.
    ///
    /// # Errors
    /// `ESRCH` if it is gone, `EIO` if it is not stopped with its process.
    pub(crate) fn listen(&self, tid: i32) -> Result<(), Errno> {
        point("PTRACE_LISTEN")?;
        self.alone(|| request(libc::PTRACE_LISTEN, tid, 0, 0))
    }

    /// `PTRACE_SETOPTIONS`. Who wants tests to make it fail has a point of its own for that.
    ///
    /// # Errors
    /// `ESRCH` if it is gone or not stopped.
    pub(crate) fn set_options(&self, tid: i32, options: Options) -> Result<(), Errno> {
        self.alone(|| ptrace::setoptions(Pid::from_raw(tid), options))
    }

    /// `PTRACE_GETEVENTMSG`: whom the event is about.
    ///
    /// # Errors
    /// `ESRCH` if it is gone or not stopped.
    pub(crate) fn event_message(&self, tid: i32) -> Result<i32, Errno> {
        let message = self.alone(|| ptrace::getevent(Pid::from_raw(tid)))?;
        i32::try_from(message).map_err(|_| Errno::ERANGE)
    }

    /// `PTRACE_GETSIGINFO`: the signal that it stopped for.
    ///
    /// # Errors
    /// `ESRCH` if it is gone or not stopped, `EINVAL` if it stopped with its process.
    pub(crate) fn stop_signal(&self, tid: i32) -> Result<i32, Errno> {
        self.alone(|| ptrace::getsiginfo(Pid::from_raw(tid))).map(|info| info.si_signo)
    }

    /// `PTRACE_POKEUSER` of what the processor has for breakpoints: has the thread stop with `SIGTRAP` before the
    /// instruction at `at`, or not any more.
    ///
    /// # Errors
    /// `ESRCH` if it is gone or not stopped, `ENOSPC` where there are no such registers.
    pub(crate) fn set_breakpoint(&self, tid: i32, at: Option<RemoteAddr>) -> Result<(), Errno> {
        point("PTRACE_POKEUSER")?;
        self.alone(|| {
            for (place, word) in arch::breakpoint(at) {
                let word = usize::try_from(word).map_err(|_| Errno::EINVAL)?;
                request(libc::PTRACE_POKEUSER, tid, place, word)?;
            }
            Ok(())
        })
    }
}

/// `get_robust_list(2)`: where the thread keeps the list of locks that are given up when it ends; 0 if
/// it has none.
///
/// # Errors
/// `ESRCH` if it is gone, `EPERM` without the right to look.
pub(crate) fn robust_list(tid: i32) -> Result<u64, Errno> {
    point("get_robust_list")?;
    let (mut head, mut length) = (0_u64, 0_usize);
    // SAFETY: the kernel writes one pointer and one size, to locals that outlive the call.
    let result =
        unsafe { libc::syscall(libc::SYS_get_robust_list, tid, &raw mut head, &raw mut length) };
    Errno::result(result).map(|_| head)
}

fn request(request: Request, tid: i32, address: usize, data: usize) -> Result<(), Errno> {
    let address: *mut c_void = ptr::without_provenance_mut(address);
    let data: *mut c_void = ptr::with_exposed_provenance_mut(data);
    // SAFETY: the callers above pass numbers, or a pointer to a local that outlives the call and
    // has the size they state.
    let result = unsafe { libc::ptrace(request, tid, address, data) };
    Errno::result(result).map(drop)
}
