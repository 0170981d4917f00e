//! Whole recordings: what is written is read, in all and in parts, and damage costs no more than
//! what is behind it.

mod damage;
mod disks;
mod parts;
mod session;
mod size;
mod waves;
mod whole;

pub use waves::waves;
