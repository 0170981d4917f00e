//! Values of an option that can be typed by name, where the type itself knows nothing of command lines.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Takes the name of one of `all`; the help says of each what it is.
pub fn choice<T, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
    help: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let values = all.map(|value| PossibleValue::new(name(value)).help(help(value)));
    PossibleValuesParser::new(values).map(move |typed| {
        // The parser takes no other name.
        let found = all.into_iter().find(|value| name(*value) == typed);
        found.expect("only names of the list are taken")
    })
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    #[test]
    fn only_the_names_of_the_list_are_taken() {
        let name = |number: u8| if number == 1 { "one" } else { "two" };
        let parser = choice([1_u8, 2], name, |_| "a number");
        let command = Command::new("test").arg(Arg::new("number").value_parser(parser));
        let typed = |word| command.clone().try_get_matches_from(["test", word]);
        assert_eq!(typed("two").unwrap().get_one::<u8>("number"), Some(&2));
        assert!(typed("three").is_err() && typed("ONE").is_err());
    }
}
