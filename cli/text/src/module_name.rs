//! Names of modules that are not files.

/// Code that an interpreter of Python runs.
pub const PYTHON: &str = "[python]";
/// Code that PHP runs.
pub const PHP: &str = "[php]";
/// Code that Ruby runs.
pub const RUBY: &str = "[ruby]";
/// Code that Perl runs.
pub const PERL: &str = "[perl]";
/// Code that Lua runs.
pub const LUA: &str = "[lua]";
/// Methods of Java, compiled or not.
pub const JAVA: &str = "[java]";
/// Code that V8 runs.
pub const JAVASCRIPT: &str = "[javascript]";

/// Memory without a file, as it is named here and by the kernel.
pub const ANONYMOUS: &str = "[anonymous]";
const NAMED: &str = "[anon:";
/// What is in no module.
pub const UNKNOWN: &str = "[unknown]";
/// Where .NET has its generated code, to be able to map it twice.
const DOUBLE: &str = "/memfd:doublemapper";

/// Whether code of a module of this name is a script's, whose frames an interpreter has.
pub fn is_script(module: &str) -> bool {
    [PYTHON, PHP, RUBY, PERL, LUA, JAVA, JAVASCRIPT].contains(&module)
}

/// Whether code of a module of this name was generated at run time.
pub fn is_generated(module: &str) -> bool {
    [ANONYMOUS, UNKNOWN].contains(&module)
        || module.starts_with(NAMED)
        || module.starts_with(DOUBLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_code_is_in_no_file() {
        for module in ["[anonymous]", "[anon:v8]", "[unknown]", "/memfd:doublemapper (deleted)"] {
            assert!(is_generated(module), "{module}");
        }
        for module in [
            PYTHON,
            PHP,
            RUBY,
            PERL,
            LUA,
            JAVA,
            JAVASCRIPT,
            "[vdso]",
            "/usr/lib/libc.so.6",
            "/memfd:mine",
            "",
        ] {
            assert!(!is_generated(module), "{module}");
        }
    }
}
