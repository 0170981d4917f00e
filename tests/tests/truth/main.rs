//! What is said is what happened: every block, byte, place, stack and moment, beside programs and judges that
//! know.

mod ages;
mod allocators;
mod buffers;
mod debug_frame;
mod elsewhere;
mod exact;
mod go_profile;
mod go_switched;
mod kernel_calls;
mod many_paths;
mod map_looks;
mod map_storm;
mod map_wrappers;
mod maps;
mod no_free_missed;
mod oracle;
mod python;
mod runtimes;
mod sampled;
mod scripts;
mod stacks;
mod stacks_by_gdb;
mod unhooked_free;
mod wrappers;
