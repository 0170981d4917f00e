//! Interpreters of other releases: what is known by a table is what they see themselves. A loader that is told to runs
//! them, so that it, too, is seen through.

use std::{env, path::Path};

use heapattach_tests::{
    compile::{Source, fixture},
    real::other_release::OtherRelease,
};

use super::{ALL, assert_stacks, recorded};

/// By release: the program, what it calls itself, and how many stacks its fixture has.
const PHP: [(&str, &str, &str, usize); 2] =
    [("bullseye", "php7.4", "PHP 7.4.", 25), ("trixie", "php8.4", "PHP 8.4.", 27)];
const RUBY: [(&str, &str, &str, usize); 2] =
    [("bullseye", "ruby2.7", "Ruby 2.7.", 65), ("trixie", "ruby3.3", "Ruby 3.3.", 65)];
const PERL: [(&str, &str, &str, usize); 1] = [("trixie", "perl", "Perl 5.40.", 54)];

fn assert_release(
    (suite, program, name, stacks): (&str, &str, &str, usize),
    options: impl Fn(&OtherRelease) -> Vec<String>,
    (script, language): (&Path, &str),
) {
    let Some(release) = OtherRelease::of(suite) else { return };
    let mut words = release.command(program);
    words.extend(options(&release));
    assert_program(&words, name, stacks, (script, language));
}

fn assert_program(words: &[String], name: &str, stacks: usize, (script, language): (&Path, &str)) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (ledger, told, report) = recorded(&words, script, &ALL);
    let is_named = report.contains(name) && report.contains("its functions are named");
    assert!(is_named, "{words:?}: {report}");
    assert_stacks(&ledger, &told, language, stacks);
    println!("{name}: {} blocks", told.lines().count());
}

#[test]
fn every_block_has_the_stack_that_other_releases_of_php_see() {
    for release in PHP {
        let script = fixture("php_frames.php");
        assert_release(release, |_| vec!["-n".to_owned()], (&script, "[php]"));
    }
}

#[test]
fn every_block_has_the_stack_that_other_releases_of_ruby_see() {
    for release in RUBY {
        let version = release.2.trim_start_matches("Ruby ").to_owned() + "0";
        let machine = format!("{}-linux-gnu", env::consts::ARCH);
        let options = |place: &OtherRelease| {
            let folders =
                [format!("usr/lib/ruby/{version}"), format!("usr/lib/{machine}/ruby/{version}")];
            let folders = folders.map(|folder| format!("-I{}", place.place(&folder)));
            std::iter::once("--disable-gems".to_owned()).chain(folders).collect()
        };
        let script = fixture("ruby_frames.rb");
        assert_release(release, options, (&script, "[ruby]"));
    }
}

/// The system's own is tested by itself.
#[test]
fn every_block_has_the_stack_that_another_release_of_luajit_sees() {
    let Some(release) = OtherRelease::of("trixie") else { return };
    let Some(host) = Source::new("luajit_host.c").build() else { return };
    let words = release.running(host.to_str().expect("a plain path"));
    let script = (&*fixture("lua_frames.lua"), "[lua]");
    assert_program(&words, "LuaJIT 2.1.17", 86, script);
}

/// Builds of one's own, where some are named.
#[test]
fn every_block_has_the_stack_that_named_rubies_see() {
    let others = env::var_os("HEAPATTACH_RUBIES");
    for ruby in others.iter().flat_map(|others| env::split_paths(others)) {
        let words = [ruby.display().to_string(), "--disable-gems".to_owned()];
        assert_program(&words, "Ruby ", 65, (&fixture("ruby_frames.rb"), "[ruby]"));
    }
}

#[test]
fn every_block_has_the_stack_that_named_builds_of_php_see() {
    let others = env::var_os("HEAPATTACH_PHPS");
    for php in others.iter().flat_map(|others| env::split_paths(others)) {
        let words = [php.display().to_string()];
        assert_program(&words, "PHP ", 24, (&fixture("php_frames.php"), "[php]"));
    }
}

#[test]
fn every_block_has_the_stack_that_other_releases_of_perl_see() {
    for release in PERL {
        let version = release.2.trim_start_matches("Perl ").trim_end_matches('.');
        let machine = format!("{}-linux-gnu", env::consts::ARCH);
        let folders = |place: &OtherRelease| {
            let all = [
                format!("usr/share/perl/{version}"),
                format!("usr/lib/{machine}/perl/{version}"),
                format!("usr/lib/{machine}/perl-base"),
            ];
            all.iter().map(|folder| format!("-I{}", place.place(folder))).collect()
        };
        let script = fixture("perl_frames.pl");
        assert_release(release, folders, (&script, "[perl]"));
    }
}
