//! Which build this is: what `--version` prints. `-V` prints the number alone.

use std::sync::LazyLock;

use heapattach_injector::attach::OLDEST_KERNEL;

/// The number, and what a report of a fault should name. Nothing in it depends on when or in which folder
/// it was built: two builds of one source are the same.
pub static LONG: LazyLock<String> = LazyLock::new(|| {
    let (major, minor) = OLDEST_KERNEL;
    format!(
        "{number}
commit:    {commit}
features:  {features}
target:    {target}
compiler:  {rustc}; builds with Rust {oldest_rust} or later
runs on:   Linux {major}.{minor} or later, x86-64",
        number = env!("CARGO_PKG_VERSION"),
        commit = env!("HEAPATTACH_COMMIT"),
        features = env!("HEAPATTACH_FEATURES"),
        target = env!("HEAPATTACH_BUILD_TARGET"),
        rustc = env!("HEAPATTACH_RUSTC"),
        oldest_rust = env!("CARGO_PKG_RUST_VERSION"),
    )
});

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use crate::args::Cli;

    #[test]
    fn the_short_version_is_a_number_and_the_long_one_names_the_build() {
        let command = Cli::command();
        assert_eq!(command.render_version(), format!("heapattach {}\n", env!("CARGO_PKG_VERSION")));
        let long = command.render_long_version();
        for (line, value) in [
            ("commit:    ", env!("HEAPATTACH_COMMIT")),
            ("target:    ", std::env::consts::ARCH),
            ("compiler:  ", "rustc 1."),
            ("runs on:   ", "Linux 5.6 or later"),
        ] {
            let found = long.lines().find_map(|text| text.strip_prefix(line));
            assert!(found.is_some_and(|found| found.starts_with(value)), "{line}{value}: {long}");
        }
        let faults =
            long.lines().any(|line| line.starts_with("features:") && line.contains("faults"));
        assert_eq!(faults, cfg!(feature = "faults"), "{long}");
    }
}
