//! Names of generated code, as engines write them into perf maps, taken apart: the function, and where the
//! source says that it is.

/// One of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GeneratedName<'a> {
    /// The function as its author knows it; of code of the engine's own the whole text.
    pub(crate) function: &'a str,
    /// The source file.
    pub(crate) file: Option<&'a str>,
    /// The line on which the function begins.
    pub(crate) line: Option<u32>,
}

/// What V8 puts before functions of scripts: the older names come from before it wrote JS.
const SCRIPTS: [&str; 5] = ["JS:", "LazyCompile:", "Function:", "Eval:", "Script:"];
/// And then, by how a function was compiled.
const TIERS: [char; 4] = ['~', '^', '+', '*'];
/// What a function without a name is called.
const NAMELESS: &str = "(anonymous)";

/// Reads a name.
pub(crate) fn read(text: &str) -> GeneratedName<'_> {
    let of_script = SCRIPTS.iter().find_map(|prefix| text.strip_prefix(prefix));
    match of_script {
        Some(name) => read_script(name),
        None => GeneratedName { function: without_result(text), ..GeneratedName::default() },
    }
}

/// `~holdBuffers /srv/app.js:3:21`: a name without blanks, a file that may have some, a line, a column.
fn read_script(name: &str) -> GeneratedName<'_> {
    let name = name.strip_prefix(TIERS).unwrap_or(name);
    let (function, place) = name.split_once(' ').unwrap_or((name, ""));
    let function = if function.is_empty() { NAMELESS } else { function };
    let mut numbers = place.rsplitn(3, ':');
    let column = numbers.next().and_then(|text| text.parse::<u32>().ok());
    let line = numbers.next().and_then(|text| text.parse().ok());
    match (numbers.next(), line, column) {
        (Some(file), Some(line), Some(_)) if !file.is_empty() => {
            GeneratedName { function, file: Some(file), line: Some(line) }
        }
        _ => {
            let file = Some(place).filter(|place| !place.is_empty());
            GeneratedName { function, file, line: None }
        }
    }
}

/// `void app.Cache.put(int, long)` of Java: what a method returns does not tell which it is.
fn without_result(text: &str) -> &str {
    let Some(arguments) = text.find('(').filter(|_| text.ends_with(')')) else { return text };
    let start = text[..arguments].rfind(' ').map_or(0, |blank| blank + 1);
    if text[start..arguments].contains('.') { &text[start..] } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(function: &str) -> GeneratedName<'_> {
        GeneratedName { function, ..GeneratedName::default() }
    }

    #[test]
    fn a_function_of_a_script_has_its_file_and_line() {
        for (text, function, file, line) in [
            ("JS:^holdBuffers /srv/my app/a.js:3:21", "holdBuffers", "/srv/my app/a.js", Some(3)),
            ("JS:~ file:///srv/a.mjs:6:13", "(anonymous)", "file:///srv/a.mjs", Some(6)),
            (
                "LazyCompile:*Cache.put node:internal/a:10:1",
                "Cache.put",
                "node:internal/a",
                Some(10),
            ),
            (
                "Eval:~ evalmachine.<anonymous>:1:1",
                "(anonymous)",
                "evalmachine.<anonymous>",
                Some(1),
            ),
            ("JS:~f somewhere", "f", "somewhere", None),
        ] {
            let expected = GeneratedName { function, file: Some(file), line };
            assert_eq!(read(text), expected, "{text}");
        }
        assert_eq!(read("JS:*f"), named("f"));
        assert_eq!(read("JS:"), named("(anonymous)"));
    }

    #[test]
    fn a_method_of_java_is_told_without_what_it_returns() {
        let method = "long[] app.Cache$Entry.put(int, java.lang.Object)";
        assert_eq!(read(method), named("app.Cache$Entry.put(int, java.lang.Object)"));
        assert_eq!(read("void app.Leak.<init>()"), named("app.Leak.<init>()"));
    }

    #[test]
    fn what_the_engine_has_for_itself_keeps_its_whole_name() {
        for text in [
            "Builtin:ArrayPush",
            "I2C/C2I adapters",
            "monitorexit Runtime1 stub",
            "void [System.Private.CoreLib] System.String::Trim()[Tier0]",
            "f(",
            "",
        ] {
            assert_eq!(read(text), named(text), "{text}");
        }
    }
}
