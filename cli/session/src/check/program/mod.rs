//! What a program says of its memory, and of how it is to be checked: by `heapattach.h`, and by what it has for
//! LeakSanitizer.
//!
//! | file | what |
//! |---|---|
//! | `mail` | checks and marks that it requests while it is watched |
//! | `declared` | blocks and ranges that it says something of |
//! | `settings` | functions that it defines for LeakSanitizer |
//! | `lsan_options` | the language of LeakSanitizer's options |

pub(super) mod declared;
pub mod lsan_options;
pub(super) mod mail;
pub(crate) mod settings;
