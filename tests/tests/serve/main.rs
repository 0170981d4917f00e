//! `heapattach serve` and `top`: what readers and viewers get, who is let in, and how they end.

mod agent;
mod agent_cost;
mod agent_long;
mod agent_looks;
mod agent_routes;
mod agent_soak;
mod agent_tables;
mod door;
mod ends;
mod fleet;
mod push;
mod push_long;
mod push_metrics;
mod push_stub;
mod push_symbols;
mod push_trouble;
mod readers;
mod server;
mod tmux;
mod top;
mod view;
mod view_files;
