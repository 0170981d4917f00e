//! One moment of a stopped target, for the question what leads where: its memory, its threads' registers,
//! and the calls that they are in the middle of. Without a session, [`keep`] keeps one by a clone.

pub use crate::{
    installation::in_call::InCall,
    session::{
        keep::{KeepError, Keeping, Moment, keep, stop},
        purge::{PurgeError, Purged, purge},
        write_watch::{WatchError, watch as watch_writes, watch_in as watch_writes_in},
    },
    snapshot::{
        Area, EarlyCopy, EarlyError, Exits, Finished, Image, Kept, Method, Pointer, Rules, Scene,
        SnapshotError, Standing, client_requests, constant, sanitizer, unseen_writes,
    },
};
