//! The file of a moment, as something to be shown: its page is whole.

use std::path::Path;

use heapattach_export::heap::page;
use heapattach_serve::Target;
use heapattach_text::error_chain::with_causes;

use crate::{commands::serve::Failed, exit_status::Exit};

/// The moment in a file; `None` if it is of something else.
pub fn of(file: &str) -> Option<Result<Target, Failed>> {
    let path = Path::new(file);
    heapattach_moment::is_moment(path).then(|| read(path))
}

fn read(path: &Path) -> Result<Target, Failed> {
    let failed = |why: String| (Exit::Failed, why);
    let census = heapattach_moment::read(path).map_err(|error| failed(with_causes(&error)))?.census;
    let mut text = Vec::new();
    let written = page::write(&census, &mut text);
    written.map_err(|error| failed(format!("{}: {error}", path.display())))?;
    let program = census.command.split(' ').next().unwrap_or_default();
    let name = Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(Target::new(census.pid, name.unwrap_or_default(), path.to_owned(), true).with_page(text))
}
