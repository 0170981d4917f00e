//! Undoing: the end of a session ([`crate::watch::Session::detach`] gives a [`Detached`]), and what a
//! killed heapattach left in a process, found by its marks there and undone from outside.

pub use crate::{
    home::{Home, stub_page::StubPage},
    installation::{give_back::Undone, shelter::undo_frames},
    session::{
        Detached, leftovers,
        undo::{Left, UndoError, undo_orphaned},
    },
};
