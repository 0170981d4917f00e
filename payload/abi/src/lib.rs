//! The contract between payload and injector.
#![no_std]
#![forbid(unsafe_code)]
