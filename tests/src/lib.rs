//! End-to-end tests against live programs.
