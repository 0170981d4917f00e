//! What is looked at while it lasts.

mod push;
mod serve;
mod top;

pub use push::PushArgs;
pub use serve::ServeArgs;
pub use top::TopArgs;
