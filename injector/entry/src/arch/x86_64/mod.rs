//! x86-64. What is about instructions is decoded by iced-x86; what is about bytes that may be none is not.

pub(crate) mod bypass;
pub(crate) mod disassembly;
pub(crate) mod flags;
pub(crate) mod jump;
pub(crate) mod machine;
pub(crate) mod plan;
pub(crate) mod request;
pub(crate) mod scan;
pub(crate) mod stub;
pub(crate) mod switch;
pub(crate) mod window;
pub(crate) mod wrapper;
