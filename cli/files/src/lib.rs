//! Files that others may have made, or may read: opened, written and read with care.
//!
//! ```
//! use heapattach_files::{output_file::{self, Readers}, input};
//!
//! # let folder = heapattach_test_folder::Folder::new("files");
//! let path = folder.0.join("notes");
//! output_file::write(&path, "six by seven", Readers::Owner)?;
//! assert_eq!(input::text(&path, 100)?, "six by seven");
//! // Files of others may be of any size: what is read is bounded.
//! assert!(input::text(&path, 3).unwrap_err().contains("larger than 3 B"));
//! // What is no file, a folder or a device, is not written to.
//! assert!(output_file::write(&folder.0, "", Readers::Owner).is_err());
//! # Ok::<(), String>(())
//! ```
//!
//! Knows nothing of what is in them, no process and no command line.

pub mod folder;
pub mod input;
pub mod named_file;
pub mod output_file;
pub mod whole_file;
