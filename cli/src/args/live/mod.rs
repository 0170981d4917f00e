//! What is looked at while it lasts.

mod serve;
mod top;

pub use serve::ServeArgs;
pub use top::TopArgs;
