//! Runtimes that keep what they have allocated until the process is gone, and forget where it is: to give
//! it back at the end would only take time. What they leak alone is suppressed; what an extension allocated,
//! or the program itself, is not. Pure: the caller looks at the process and says what it has.

use heapattach_text::module_name::is_script;

use super::built_in::is_loaders;

/// How a runtime is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A module exports this function.
    Exports(&'static str),
    /// The program's file has this name, and this text in its constants.
    Text(&'static str, &'static str),
    /// A module begins with the note of Go's linker.
    GoNote,
}

/// Ruby's.
pub const RUBY: Sign = Sign::Exports("ruby_sysinit");
/// Emacs exports nothing of its own.
pub const EMACS: Sign = Sign::Text("emacs", "GNU Emacs");

/// A kind of runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// What it is called.
    pub name: &'static str,
    /// How it is known.
    pub sign: Sign,
    /// Modules that come with it: their paths begin like this behind the folder of its own module.
    pub bundled: Option<&'static str>,
}

/// All that are known.
pub const KINDS: [Kind; 5] = [
    // Its standard library, by version; gems are elsewhere.
    Kind { name: "Ruby", sign: RUBY, bundled: Some("ruby/3.") },
    Kind { name: "Java's launcher", sign: Sign::Exports("JLI_Launch"), bundled: Some("") },
    Kind { name: "Emacs", sign: EMACS, bundled: None },
    Kind { name: "rsync", sign: Sign::Text("rsync", "rsync error: %s"), bundled: None },
    Kind {
        name: "gcc's collect2",
        sign: Sign::Text("collect2", "COLLECT_GCC_OPTIONS"),
        bundled: None,
    },
];

/// What a runtime calls that allocates memory in its name: the file names of libraries begin so.
const HELPERS: [&str; 8] = [
    "libm.so",
    "libpthread.so",
    "libcrypt.so",
    "libgmp.so",
    "libz.so",
    "libgcc_s.so",
    "libstdc++.so",
    "libpopt.so",
];

/// A runtime that a process has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// What it is called.
    pub name: &'static str,
    /// The path of the module with its code.
    pub own: String,
    /// How the paths of modules begin that come with it.
    pub bundled: Option<String>,
    /// The path of the program.
    pub program: String,
}

impl Runtime {
    /// Whether these modules of a stack's calls, the innermost first, are its own, and what it calls; but
    /// for the program, which starts it. What the program does when it is called back is the program's.
    pub fn is_alone<'a>(&self, modules: impl Iterator<Item = &'a str>) -> bool {
        // Functions of scripts stand where its own loop runs them.
        let is_helper = |module: &&str| {
            let file = module.rsplit('/').next().unwrap_or_default();
            is_loaders(module)
                || is_script(module)
                || HELPERS.iter().any(|name| file.starts_with(name))
        };
        let calls = modules.filter(|module| !is_helper(module));
        let is_own = |module: &&str| {
            let is_bundled =
                |start: &String| !start.is_empty() && module.starts_with(start.as_str());
            *module == self.own || self.bundled.as_ref().is_some_and(is_bundled)
        };
        let mut calls = calls.peekable();
        calls.peek().is_some_and(is_own)
            && calls.skip_while(is_own).all(|module| module == self.program)
    }

    /// The rule, as it is told.
    pub fn rule(&self) -> String {
        format!("runtime:{}", self.name)
    }

    /// The line that says so; with what was suppressed, if anything may be.
    pub fn text(&self, quiet: Option<(u64, u64)>) -> String {
        let name = self.name;
        let head = format!("{name} does not free at exit what it allocated itself");
        match quiet {
            Some((bytes, blocks)) => format!(
                "{head}: {} in {blocks} block{} left out; --no-builtin-suppressions tells them",
                heapattach_text::quantity::bytes(bytes),
                if blocks == 1 { "" } else { "s" },
            ),
            None => format!("{head}, and nothing of it is left out here"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_runtime_loses_alone_is_its_own_and_what_others_have_part_in_is_not() {
        let (libc, own) = ("/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/libruby-3.1.so.3.1");
        let program = "/usr/bin/ruby";
        let bundled = Some("/usr/lib/ruby/3.".to_owned());
        let (name, own) = ("Ruby", own.to_owned());
        let ruby = Runtime { name, own: own.clone(), bundled, program: program.to_owned() };
        let own = own.as_str();
        let is_alone = |stack: &[&str]| ruby.is_alone(stack.iter().copied());
        assert!(is_alone(&[libc, own, own, program, libc, program]));
        assert!(is_alone(&["/usr/lib/libgmp.so.10", own]));
        assert!(is_alone(&[libc, own, "[ruby]", "[ruby]", own, program]));
        assert!(!is_alone(&[libc, "/home/me/extension.so", "[ruby]", own, program]));
        assert!(is_alone(&[libc, own, "/usr/lib/ruby/3.1.0/monitor.so", own, program]));
        assert!(!is_alone(&[libc, own, "/usr/lib/ruby/vendor_ruby/3.1.0/mine.so", own, program]));
        let extension = "/home/me/extension.so";
        assert!(!is_alone(&[libc, own, extension, own, program]));
        assert!(!is_alone(&[libc, extension, own, program]));
        assert!(!is_alone(&[libc, "/home/me/libruby-3.1.so.3.1"]));
        // A program that has a runtime in it, and leaks something itself.
        assert!(!is_alone(&[libc, program, own, program]));
        assert!(!is_alone(&[libc, program]));
        // Nothing says that it is the runtime's.
        assert!(!is_alone(&[libc]) && !is_alone(&[]));
        // One that is the program.
        let (own, program) = (program.to_owned(), program.to_owned());
        let rsync = Runtime { name: "rsync", own, bundled: None, program };
        let program = "/usr/bin/ruby";
        assert!(rsync.is_alone([libc, program, program].into_iter()));
    }
}
