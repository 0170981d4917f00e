//! Modules that names or lines were wanted of, in vain.

use std::{cmp::Reverse, path::Path};

use serde::{Deserialize, Serialize};

use crate::files::packages::Packages;
use crate::modules::Modules;

/// So many are told.
const LIMIT: usize = 12;

/// One module without debug information.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Its path.
    pub module: String,
    /// The identity of its build.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// How many addresses in it were looked up.
    pub addresses: usize,
    /// What is missing.
    pub why: String,
    /// How to get it.
    pub cure: String,
}

/// The modules with the most addresses first.
pub fn missing(modules: &Modules) -> Vec<Missing> {
    let wanted = modules.iter().filter(|m| m.asked > 0 && m.path.is_absolute());
    let mut lacking: Vec<_> = wanted.filter_map(|m| Some((m, m.lacks()?))).collect();
    lacking.sort_by_key(|(module, _)| Reverse(module.asked));
    lacking.truncate(LIMIT);
    let files: Vec<&Path> = lacking.iter().map(|(module, _)| module.path.as_path()).collect();
    let packages = Packages::of(modules.target_root(), &files, modules.packages());
    let debuginfod = modules.debuginfod();
    let told = lacking.into_iter().map(|(module, why)| Missing {
        module: module.name.to_string(),
        build_id: module.build_id.as_ref().map(ToString::to_string),
        addresses: module.asked,
        why: match debuginfod.remark(module.build_id.as_ref()) {
            Some(remark) => format!("{why} ({remark})"),
            None => why.to_owned(),
        },
        cure: packages.cure(&module.path, module.build_id.as_ref()),
    });
    told.collect()
}
