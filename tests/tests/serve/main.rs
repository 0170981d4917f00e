//! `heapattach serve`: what readers get, who is let in, and how it ends.

mod door;
mod ends;
mod readers;
mod server;
