//! What real readers say of our files.
