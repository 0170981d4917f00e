//! How the project itself is built: its arrows, its circles, its boundaries, its names, its benchmark.

mod arrows;
mod boundaries;
mod circles;
mod layout;
mod peers;
mod processor;
mod roots;
mod sources;
mod words;
