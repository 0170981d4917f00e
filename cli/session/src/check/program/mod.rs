//! What a program says of its memory while it is watched: by `heapattach.h`, and by what stands in for
//! functions of LeakSanitizer.
//!
//! | file | what |
//! |---|---|
//! | `mail` | checks and marks that it requests while it is watched |
//! | `declared` | blocks and ranges that it says something of |

pub(super) mod declared;
pub(super) mod mail;
