//! What is looked at while it lasts.

mod push;
mod serve;
mod top;
mod view;

pub use push::PushArgs;
pub use serve::ServeArgs;
pub use top::TopArgs;
pub use view::ViewArgs;
