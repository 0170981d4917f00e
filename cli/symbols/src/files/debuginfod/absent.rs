//! What stands for the real one in a command built without it.

use std::fs::File;

use heapattach_process::proc::build_id::BuildId;

/// No servers: heapattach was built without debuginfod.
#[derive(Clone, Debug, Default)]
pub struct Debuginfod {
    is_missed: bool,
}

impl Debuginfod {
    /// The one of this process's environment.
    pub fn of_environment() -> Self {
        let is_missed = std::env::var_os("DEBUGINFOD_URLS").is_some_and(|urls| !urls.is_empty());
        Self { is_missed }
    }

    /// Whether there is a server to ask.
    pub fn is_in_use(&self) -> bool {
        false
    }

    /// Gets nothing.
    pub fn fetch(&self, _wanted: Vec<BuildId>, _watch: &mut dyn FnMut(&str) -> bool) {}

    /// Has nothing.
    pub fn open(&self, _id: &BuildId) -> Option<File> {
        None
    }

    /// Why it is of no use, if the user expects it to be.
    pub fn remark(&self, _id: Option<&BuildId>) -> Option<String> {
        let why = "DEBUGINFOD_URLS needs a heapattach built with --features debuginfod";
        self.is_missed.then(|| why.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_names_servers_is_told_that_this_build_asks_none() {
        assert_eq!(Debuginfod { is_missed: false }.remark(None), None);
        let remark = Debuginfod { is_missed: true }.remark(None).unwrap();
        assert!(remark.contains("--features debuginfod"), "{remark}");
    }
}
