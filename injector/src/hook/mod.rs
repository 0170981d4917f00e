//! Which functions are hooked and how: modules are surveyed, a plan is made while the target runs, and
//! carried out while it is stopped. Beside that, which modules export functions of other names.

pub mod exporters;
pub mod nests;
pub mod obstacle;
pub mod patch;
pub mod plan;
pub mod quiet;
pub mod requests;
pub mod slots;
pub mod stand_ins;
pub mod survey;
