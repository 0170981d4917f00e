//! Numbers, names, patterns and errors as people read and type them.
//!
//! ```
//! use heapattach_text::{glob, printable::printable, quantity, short_name::short_name};
//!
//! assert_eq!(quantity::parse_size("4MiB")?, 4 << 20);
//! assert_eq!(quantity::bytes(4 << 20), "4.0 MiB");
//! assert!(glob::matches("lib*.so", "libc.so") && !glob::matches("lib*.so", "app"));
//! // Names come from programs that may be hostile: no terminal obeys them.
//! assert!(!printable("\x1b[2Jmain").contains('\x1b'));
//! assert_eq!(short_name("void work<int>(std::string const&)"), "work<int>");
//! # Ok::<(), String>(())
//! ```
//!
//! Knows no process, no file and no clock.

pub mod command_line;
pub mod date;
pub mod error_chain;
pub mod glob;
pub mod module_name;
pub mod printable;
pub mod quantity;
pub mod short_name;
