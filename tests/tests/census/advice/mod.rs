//! Programs in which one thing of their allocator is wrong: the advice names it, and what it has the user type ends it.

mod hot_threads;
mod turnover;
