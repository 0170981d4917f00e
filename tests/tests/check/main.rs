//! `heapattach check`: what it finds is what was leaked, in every language; in pipelines, in families, and beside a
//! program that goes on.

mod arenas;
mod busy;
mod command;
mod exec_meanwhile;
mod families;
mod faults;
mod growth;
mod header;
mod known_leaks;
mod languages;
mod lsan_words;
mod older;
mod own_checker;
mod pause;
mod pipeline;
mod real;
mod retained;
mod rounds;
mod runtimes;
mod sealed;
mod stale_words;
mod truth;
mod valgrind_pools;
mod valgrind_words;
mod verdicts;
