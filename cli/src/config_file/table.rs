//! The options of one command, as the file has them.

use clap::Command;
use toml::{Table, Value};

use super::permitted::Section;

/// An option and its values; none if it takes none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Its name, without the dashes.
    pub option: String,
    /// What is given to it, each by itself.
    pub values: Vec<String>,
}

/// What the table of this command asks for. Other tables are looked at as well: a mistake should not wait
/// for its command.
///
/// # Errors
/// What is wrong, with the line where that is known.
pub fn options(text: &str, section: Section, command: &Command) -> Result<Vec<Asked>, String> {
    let file: Table = text.parse().map_err(|error: toml::de::Error| plain(&error))?;
    let names = Section::ALL.map(Section::name);
    for (key, value) in &file {
        let Some(other) = Section::ALL.into_iter().find(|section| section.name() == key) else {
            let all = names.to_vec();
            return Err(format!(
                "`{key}` is not a table; need [check], [run] or [attach]{}",
                near(key, &all)
            ));
        };
        let Value::Table(table) = value else {
            return Err(format!("`{key}` is a value; need a table: [{key}]"));
        };
        for option in table.keys() {
            known(option, other)?;
        }
    }
    let Some(Value::Table(table)) = file.get(section.name()) else { return Ok(Vec::new()) };
    table.iter().filter_map(|(option, value)| asked(option, value, command).transpose()).collect()
}

fn known(option: &str, section: Section) -> Result<(), String> {
    let permitted = section.permitted();
    if permitted.contains(&option) {
        return Ok(());
    }
    let name = section.name();
    Err(format!("[{name}] cannot have `{option}`{}", near(option, permitted)))
}

/// `None`: it is switched off.
fn asked(option: &str, value: &Value, command: &Command) -> Result<Option<Asked>, String> {
    let arg = command.get_arguments().find(|arg| arg.get_long() == Some(option));
    let takes_value = arg.is_some_and(|arg| arg.get_action().takes_values());
    let values = match value {
        Value::Boolean(is_on) if !takes_value => {
            let asked = Asked { option: option.to_owned(), values: Vec::new() };
            return Ok(is_on.then_some(asked));
        }
        _ if !takes_value => return Err(format!("`{option}` is true or false")),
        Value::Array(all) => all.iter().map(one).collect::<Option<Vec<String>>>(),
        value => one(value).map(|value| vec![value]),
    };
    let values = values.ok_or_else(|| {
        format!("`{option}` needs a value as on the command line: \"60s\", 3, [\"a\", \"b\"]")
    })?;
    Ok((!values.is_empty()).then(|| Asked { option: option.to_owned(), values }))
}

fn one(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(_) | Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

/// In one line.
fn plain(error: &toml::de::Error) -> String {
    let told = error.to_string();
    let lines: Vec<&str> = told.lines().map(str::trim).collect();
    let place = lines.first().copied().unwrap_or_default();
    format!("{place}: {}", error.message().lines().next().unwrap_or_default())
}

/// The name that was meant, perhaps.
fn near(name: &str, known: &[&str]) -> String {
    let best = known.iter().map(|known| (distance(name, known), known)).min();
    match best {
        Some((distance, known)) if distance <= 3 && distance < name.len() => {
            format!("; did you mean `{known}`?")
        }
        _ => String::new(),
    }
}

/// How many letters must be changed, added or taken away.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    // No name is that long: what comes from a file stays cheap.
    for (number, from) in a.chars().take(64).enumerate() {
        let mut before = row[0];
        row[0] = number + 1;
        for (at, to) in b.iter().enumerate() {
            let changed = before + usize::from(from != *to);
            before = row[at + 1];
            row[at + 1] = changed.min(before + 1).min(row[at] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    fn of(text: &str) -> Result<Vec<(String, Vec<String>)>, String> {
        let mut all = Cli::command();
        all.build();
        let asked = options(text, Section::Check, Section::Check.command(&all))?;
        Ok(asked.into_iter().map(|asked| (asked.option, asked.values)).collect())
    }

    #[test]
    fn the_options_of_a_command_are_those_of_its_table() {
        let text = "# of all checks\n[check]\nfollow-forks = true\nquiet = false\nmax-leak = '1KiB'\n\
                    skip = ['*sh', 'make']\nmax-processes = 7\n[run]\nall = true\n";
        let value = |option: &str, values: &[&str]| {
            (option.to_owned(), values.iter().map(|value| value.to_string()).collect())
        };
        let expected = [
            value("follow-forks", &[]),
            value("max-leak", &["1KiB"]),
            value("max-processes", &["7"]),
            value("skip", &["*sh", "make"]),
        ];
        assert_eq!(of(text).unwrap(), expected);
        assert_eq!(of("").unwrap(), []);
    }

    #[test]
    fn a_mistake_is_told_with_the_near_name_whichever_command_it_is_of() {
        for (text, told) in [
            (
                "[check]\nmax-leek = '1KiB'",
                "[check] cannot have `max-leek`; did you mean `max-leak`?",
            ),
            (
                "[chek]\n",
                "`chek` is not a table; need [check], [run] or [attach]; did you mean `check`?",
            ),
            ("duration = '5s'", "`duration` is not a table; need [check], [run] or [attach]"),
            ("[attach]\npid = 7", "[attach] cannot have `pid`"),
            ("[check]\nfollow-forks = 1", "`follow-forks` is true or false"),
            ("[check]\nmax-leak = true", "`max-leak` needs a value as on the command line"),
            ("[check\n", "TOML parse error at line 1"),
            ("check = 3", "`check` is a value; need a table: [check]"),
        ] {
            let error = of(text).unwrap_err();
            assert!(error.starts_with(told) && !error.contains('\n'), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text: String) {
            let _ = of(&text);
        }
    }
}
