//! Saying in the output that a test could not run here.
//!
//! A test that silently passes where it cannot run proves nothing; where `CI` is set, skipping is
//! a failure, because there the machine is ours to equip.

pub use heapattach_test_folder::skip;
