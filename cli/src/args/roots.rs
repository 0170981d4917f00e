//! The values of `--roots`, with what they are.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use heapattach_reach::RootKind;

/// A parser that knows all kinds.
pub fn parser() -> impl TypedValueParser<Value = RootKind> {
    let value = |kind: RootKind| {
        let (name, what) = kind.words();
        PossibleValue::new(name).help(what)
    };
    let values = PossibleValuesParser::new(RootKind::ALL.map(value));
    values.try_map(|name| RootKind::named(&name).ok_or("no kind of root"))
}
