//! The heap that was already there: every block of a process, beside programs that know; and that nothing of a
//! look at it is left.

mod advice;
mod allocating;
mod allocator;
mod asked;
mod classes;
mod cold;
mod command;
mod core_file;
mod declared;
mod glibc;
mod go;
mod holders;
mod kills;
mod large_tables;
mod moment_diff;
mod moment_file;
mod own_profile;
mod php;
mod php_fpm;
mod pins;
mod python;
mod remedies;
mod session;
mod shapes;
mod sites;
mod steps;
mod under_load;
mod waste;
