//! Programs that people run, under load, attached and not.

mod allocators;
mod cycle;
mod families;
mod go_programs;
mod many_programs;
mod mappings;
mod programs;
