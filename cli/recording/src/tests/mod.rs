//! Whole recordings: what is written is read, in all and in parts, and damage costs no more than
//! what is behind it.

mod bombs;
mod damage;
mod disks;
mod in_memory;
mod parts;
mod size;
mod whole;
