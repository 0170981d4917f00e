//! Whether this build can send at all: HTTP and TLS come by a feature, which a build of one's own may lack.

/// Whether anything can be sent.
pub const IS_BUILT_IN: bool = cfg!(feature = "http");

/// What is said where nothing can be sent: what is missing, and what has it.
pub fn not_built_in() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "this heapattach {version} is built without the feature `push`, which --push needs; the files of release \
         {version} have it (heapattach-{version}-x86_64-linux, heapattach_{version}-1_amd64.deb), and so has \
         `cargo install --path cli --features push`"
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_files_that_are_named_are_those_of_a_release_and_can_send() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.ci/release");
        let script = fs::read_to_string(script).expect("a file of ours");
        let features = script.lines().find_map(|line| line.strip_prefix("features="));
        assert!(
            features.is_some_and(|all| all.split(',').any(|one| one == "push")),
            "{features:?}"
        );
        let told = not_built_in();
        let version = env!("CARGO_PKG_VERSION");
        let files = script.lines().filter_map(|line| line.strip_prefix("#   heapattach"));
        let names = files.filter_map(|line| line.split(' ').next());
        let named = names.map(|rest| format!("heapattach{}", rest.replace("VERSION", version)));
        let named: Vec<_> = named.filter(|name| told.contains(name.as_str())).collect();
        assert_eq!(named.len(), 2, "{told}");
    }
}
