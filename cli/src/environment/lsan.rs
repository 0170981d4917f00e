//! `LSAN_OPTIONS`.

use heapattach_reach::RootKind;
use heapattach_session::lsan::LsanOptions;

use super::Said;

/// What the variable says.
pub(super) fn read(value: &impl Fn(&str) -> Option<String>) -> Option<Said> {
    let variable = "LSAN_OPTIONS";
    let options = LsanOptions::parse(&value(variable)?);
    let mut said = Said { variable, untaken: options.untaken, ..Said::default() };
    if let Some(file) = options.suppressions {
        said.ask("suppressions", file);
    }
    if let Some(code) = options.exit_code {
        said.ask("error-exitcode", code.to_string());
    }
    if options.prints_rules {
        said.ask("print-suppressions", None);
    }
    if let Some(depth) = options.max_depth {
        said.ask("max-depth", depth.to_string());
    }
    if options.unaligned {
        said.ask("unaligned", None);
    }
    if !options.without.is_empty() {
        let left = RootKind::ALL.into_iter().filter(|kind| !options.without.contains(kind));
        said.ask("roots", left.map(|kind| kind.words().0).collect::<Vec<_>>().join(","));
    }
    if options.is_off {
        // Who types `check` wants one.
        said.untaken.push("detect_leaks=0".to_owned());
    }
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> (Vec<(String, Vec<String>)>, Vec<String>) {
        let said = read(&|_| Some(text.to_owned())).unwrap();
        let options = said.options.into_iter().map(|asked| (asked.option, asked.values));
        (options.collect(), said.untaken)
    }

    #[test]
    fn options_have_their_counterparts() {
        let (options, untaken) =
            options("suppressions=a.supp:exitcode=3:use_globals=0:use_tls=0:detect_leaks=0:x=y");
        let all = |name: &str, value: &str| (name.to_owned(), vec![value.to_owned()]);
        let roots = "registers,stacks,mapped,shared,heap,kernel,loader,announced";
        assert_eq!(
            options,
            [all("suppressions", "a.supp"), all("error-exitcode", "3"), all("roots", roots)]
        );
        assert_eq!(untaken, ["x=y", "detect_leaks=0"]);
    }
}
