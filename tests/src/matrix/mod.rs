//! Every kind of target: allocator, linkage, language, C library, namespace and loader.
//!
//! The full product would be thousands of programs, most of which cannot be. A [`Cell`] is one
//! program that can; [`cells()`] is the list of them, and [`pairs`] says which two values can come
//! together, so that a test can tell whether some cell has each such pair. [`trial`] is what is done
//! with a cell, [`rows`] what the guide promises, each promise with its proof.

pub mod axes;
pub mod build;
pub mod cell;
mod list;
pub mod pairs;
pub mod rows;
pub mod trial;

pub use cell::{Cell, Expected};
pub use list::cells;
