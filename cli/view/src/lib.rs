//! A ledger, and the report of a session, as a person reads it in a terminal, one file a view, and as a
//! script reads it.
//!
//! ```text
//! subject (a ledger, perhaps two) -> view: rows with figures -> table -> page
//!                                                            -> JSON
//!                            report -> session, family ----------------> page
//! ```
//!
//! A view is first made as data and then written: text and JSON tell the same. Each number that was
//! estimated has its interval.
//!
//! ```
//! use heapattach_verdict::subject::{Ask, Subject};
//! use heapattach_view::{Form, Page, View};
//!
//! let ledger = heapattach_ledger::sample::ledger();
//! let page = Page::new(Some(80), false);
//! let text = View::Sites.tell(&Subject::of(&ledger), &Ask::default(), Form::Text(page));
//! assert!(text.contains("make_node (list.c:12)") && text.lines().all(|line| line.len() <= 100));
//! let json = View::Sites.tell(&Subject::of(&ledger), &Ask::default(), Form::Json);
//! assert!(json.contains("heapattach/view/sites/1"));
//! ```
//!
//! Knows no process, no file, no clock and no command line; of the machine only how wide the terminal
//! is and whether it has colours ([`Page::for_stream`]).

mod allocator;
mod bar;
mod classes;
mod family;
mod flame;
mod heap;
mod kernel;
mod mapped;
mod mmap;
mod moments;
mod name;
mod next;
mod page;
mod peak;
pub mod session;
mod sites;
mod source;
mod summary;
mod table;
mod temporary;
mod threads;
mod timeline;
mod top;
mod tree;
mod view;

pub use allocator::AllocatorView;
pub use bar::{bar, sparkline};
pub use heap::{HeapView, tell_difference, tell_placed_sites};
pub use moments::tell_moments;
pub use name::fitted;
pub use next::{quoted, write_next};
pub use page::{Colour, Ink, Page, Span, columns, knows_colours};
pub use sites::{Sites, write_sites};
pub use source::SourceText;
pub use view::{Form, View, tell_source};
