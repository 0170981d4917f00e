//! The code that runs inside somebody else's process.
#![no_std]
