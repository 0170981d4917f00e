//! Lines of source files, as the command read them.

use std::collections::HashMap;

/// Files that are kept; a file is wanted anew beyond that.
const MOST: usize = 64;

/// Files by their names; `None` of one that cannot be read.
#[derive(Clone, Debug, Default)]
pub struct Sources(HashMap<String, Option<Vec<String>>>);

impl Sources {
    /// Whether something is known of a file.
    pub fn knows(&self, file: &str) -> bool {
        self.0.contains_key(file)
    }

    /// Takes the text of a file, or that there is none.
    pub fn take(&mut self, file: String, text: Option<&str>) {
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let lines = |text: &str| text.lines().map(|line| line.replace('\t', "    ")).collect();
        self.0.insert(file, text.map(lines));
    }

    /// A line of a file.
    pub fn line(&self, file: &str, line: u32) -> Option<&str> {
        let lines = self.0.get(file)?.as_ref()?;
        let at = usize::try_from(line).ok()?.checked_sub(1)?;
        lines.get(at).map(String::as_str)
    }
}
