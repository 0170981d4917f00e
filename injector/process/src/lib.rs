//! A process as it is seen from outside: its files in `/proc` or its core, its memory, its modules, and the
//! addresses, events and stacks that all other crates speak of.
//!
//! It reads, and never stops: no ptrace, no signal, and nothing is written but the memory it is told
//! to. It knows no hook, no payload and no processor. Whatever it reads is hostile: bounded,
//! checked, never a panic.
//!
//! ```
//! use heapattach_process::{image, memory::Memory, proc::{Process, maps}};
//!
//! let own = Process::open(std::process::id().cast_signed())?;
//! let (memory, text) = (Memory::open(&own)?, own.read("maps")?);
//! let maps = maps::parse(&text).expect("what the kernel writes");
//! // Every module that is loaded, read from memory alone.
//! let images = image::images(&memory, &maps);
//! assert!(images.iter().any(|image| image.entry.is_some()), "one of them is the program");
//! # Ok::<(), nix::errno::Errno>(())
//! ```

pub mod addr;
pub mod cache;
pub mod core_file;
pub mod event;
pub mod fault;
pub mod generations;
pub mod image;
pub mod linker;
pub mod little_endian;
pub mod memory;
pub mod memory_file;
pub mod offspring;
pub mod page_writes;
pub mod presence;
pub mod proc;
pub mod python_frame;
pub mod ranges;
pub mod root;
pub mod shared;
pub mod spoken;
pub mod stack;
pub mod told_loader;
