//! The heapattach to measure: as it is released, without what tests build into it.

use std::{env, ffi::OsStr, os::unix::process::CommandExt, path::PathBuf, process::Command};

use super::kit::run;
use crate::compile::{folder, profile_folder};

/// The variable that names it.
const NAME: &str = "HEAPATTACH_UNDER_TEST";

/// Returns if the environment names it; else builds it, and begins anew with it named.
///
/// # Errors
/// If it does not build.
pub fn settle() -> Result<(), String> {
    if env::var_os(NAME).is_some() {
        return Ok(());
    }
    let product = build()?;
    let program = env::current_exe().map_err(|error| error.to_string())?;
    // The variable is for all that is started later, and setting it is safe only before there is
    // anything else in the process: in a new one.
    let error = Command::new(program).args(env::args_os().skip(1)).env(NAME, product).exec();
    Err(format!("cannot begin anew: {error}"))
}

fn build() -> Result<PathBuf, String> {
    let profile = profile_folder();
    let is_release = profile.file_name() == Some(OsStr::new("release"));
    let target = profile.parent().ok_or("the build has no folder")?;
    eprintln!("building heapattach");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--package", "heapattach", "--manifest-path"]);
    cargo.arg(folder().join("../Cargo.toml")).args(is_release.then_some("--release"));
    run(cargo.arg("--target-dir").arg(target))?;
    Ok(profile.join("heapattach"))
}
