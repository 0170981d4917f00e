//! What a release consists of: that its files are what they say, and work where little else is.

mod bill_of_materials;
mod files;
mod package;
mod publishing;
mod root_file_systems;
mod units;
mod workflows;
