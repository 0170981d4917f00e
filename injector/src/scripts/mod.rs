//! The interpreter of scripts (CPython, PHP, Ruby, Perl, Lua, LuaJIT, V8), or Java's virtual machine, in a target: recognised from outside, so that the payload
//! can walk its frames and we can name them.
//!
//! ```text
//! marks: symbols of a module -> interpreter: version, layout, php, ruby, perl, lua or v8 -> orders for the payload
//!                                   |
//! words of a stack, copies of code -> frames: code, text, line_table, php, ruby, perl, lua, v8 -> function, file, line
//!                        merge: native frames + frames of scripts -> one stack
//! ```
//!
//! A frame of a script has an address of its own, beyond those of programs, so that whatever handles
//! stacks of addresses handles these too. Everything read from the target is hostile.

mod code;
mod cold_part;
mod frames;
mod interpreter;
mod java;
mod layout;
mod line_table;
mod lua;
mod lua_layouts;
mod lua_lines;
mod lua_loop;
mod luajit;
mod merge;
mod orders;
mod perl;
mod php;
mod ruby;
mod ruby_lines;
mod ruby_loop;
mod ruby_rows;
mod text;
mod v8;
mod v8_lines;

pub use frames::Frames;
pub(crate) use interpreter::recognise;
pub use interpreter::{Interpreter, Python, Unreadable};
pub(crate) use java::Java;
pub use merge::{merge, placed};
pub use orders::Wish;

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) use super::interpreter::tests::some;
}
