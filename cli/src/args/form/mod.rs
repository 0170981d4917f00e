//! Forms in which something is shown or written, by the names that are typed.

mod file_format;
mod moment_form;
mod report_view;

pub use file_format::FileFormat;
pub use moment_form::MomentForm;
pub use report_view::ReportView;
