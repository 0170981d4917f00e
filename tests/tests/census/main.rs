//! The heap that was already there: every block of a process, beside programs that know.

mod glibc;
