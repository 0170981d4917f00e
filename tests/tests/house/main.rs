//! How the project itself is built: its arrows, its circles, its benchmark.

mod arrows;
mod circles;
mod peers;
mod words;
