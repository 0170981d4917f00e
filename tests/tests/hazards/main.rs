//! Attaching to every kind of process at every kind of moment: it goes on as it was, or it is refused and told why.

mod allocators;
mod children;
mod confined;
mod extremes;
mod follow_forks;
mod foretold;
mod fork_servers;
mod growth;
mod late_code;
mod libc_releases;
mod loader_dlopen;
mod many_threads;
mod matrix;
mod memory;
mod modules;
mod not_randomized;
mod patched;
mod refusals;
mod second_session;
mod signals;
mod threads;
mod told_loader;
mod two_commands;
mod which;
