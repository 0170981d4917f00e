//! Blocks of containers by the form of what holds them: texts, arrays, nodes, pieces and tables of libstdc++ and libc++, in
//! objects whose class is known, in variables, and in such containers themselves; trait objects, texts, tables, arrays
//! and counted values of Rust.
//!
//! A form is whole or none: lengths must fit the block, counts must be those of the nodes, links must lead back.
//! What is told is the form, since a program's own structures can have it, too. A block that has two forms has
//! neither.

mod chains;
mod deque;
mod forms;
mod libcpp;
#[cfg(test)]
mod near_misses;
mod rust;
mod rust_arrays;
mod rust_columns;
mod rust_containers;
mod rust_counted;
mod search;

pub use forms::Shape;
pub use search::{Languages, Shapes, search};
