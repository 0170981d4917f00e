//! Saying in the output that a test could not run here.
//!
//! A test that silently passes where it cannot run proves nothing; where `CI` is set, skipping is
//! a failure, because there the machine is ours to equip.

/// Reports that the calling test cannot run because of `why`, with the `cure`.
///
/// # Panics
/// If the environment variable `CI` is set to anything but `false`.
pub fn skip(why: &str, cure: &str) {
    let ci = std::env::var("CI").is_ok_and(|value| !value.is_empty() && value != "false");
    assert!(!ci, "skipped, which CI does not allow: {why}; {cure}");
    eprintln!("SKIPPED: {why}; {cure}");
}
