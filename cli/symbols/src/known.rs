//! Modules as a recording keeps them, so that another day, or another machine, can name the code in
//! them: by the files there, if they are of the same build.

use std::{path::PathBuf, sync::Arc};

use serde::{Deserialize, Serialize};

use heapattach_process::proc::build_id::BuildId;

use crate::files::{mapped_file, root::Root};
use crate::{module::Module, printable::printable};

/// A Python frame as a recording keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PythonCall {
    /// The function.
    pub function: String,
    /// The file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// The line of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// A module and where it was mapped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Known {
    /// Its path, or what the kernel calls it.
    pub path: String,
    /// The identity of its build, in hexadecimal digits; empty if it has none.
    pub build_id: String,
    /// The address ranges that it was mapped to.
    pub pieces: Vec<Piece>,
    /// The frames in it, if they are Python's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub python: Vec<PythonCall>,
}

/// A piece of a module that was mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Its first address.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// Where in the file its first byte is; of memory without a file, its address.
    pub file_offset: u64,
}

impl Known {
    /// Whether it stands for Python code, which is in no file of its own.
    pub fn is_python(&self) -> bool {
        !self.python.is_empty()
    }

    /// With its file, or the debug file of the same build, if one is here.
    pub(crate) fn module(&self, root: Option<&Arc<Root>>) -> Module {
        let path = PathBuf::from(self.path.strip_suffix(" (deleted)").unwrap_or(&self.path));
        let build_id = BuildId::of_digits(&self.build_id);
        // Without a build id nothing tells whether the file is still the same.
        let file = root.zip(build_id.as_ref()).and_then(|(root, build_id)| {
            let own = root.open(&path).filter(|file| mapped_file::is_build(file, Some(build_id)));
            own.or_else(|| {
                let (folder, name) = build_id.split();
                let debug = format!("/usr/lib/debug/.build-id/{folder}/{name}.debug");
                root.open(debug.as_ref()).filter(|file| mapped_file::is_build(file, Some(build_id)))
            })
        });
        Module::new(&printable(&self.path), path, build_id, file)
    }
}
