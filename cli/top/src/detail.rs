//! One row in detail: its figures, and its stacks with lines of source.

use heapattach_ledger::{EndReason, Ledger, Metric};
use heapattach_profile::Sum;
use heapattach_verdict::{figure::bytes, subject::own_calls};
use heapattach_view::{Ink, Span};

use crate::{compact, history::Course, inked::Line, rows::Row, source::Sources};

/// The stacks of a row in a ledger, each with what is in use of it, the largest first.
pub fn stacks(ledger: &Ledger, row: &Row) -> Vec<(u32, Sum)> {
    let wanted: std::collections::HashSet<u32> = row.stacks.iter().copied().collect();
    let mut sums: std::collections::HashMap<u32, Sum> = std::collections::HashMap::new();
    let is_of_thread = |thread: u32| {
        row.key.thread.as_ref().is_none_or(|own| ledger.threads.get(thread as usize) == Some(own))
    };
    for one in &ledger.rows {
        if wanted.contains(&one.stack) && is_of_thread(one.thread) {
            sums.entry(one.stack).or_default().merge(&one.sum(Metric::Live));
        }
    }
    let mut stacks: Vec<_> = sums.into_iter().collect();
    let value = |sum: &Sum| sum.measure().bytes.value;
    stacks.sort_by(|(a, one), (b, other)| value(other).total_cmp(&value(one)).then(a.cmp(b)));
    stacks
}

/// The source files of a stack.
pub fn files(ledger: &Ledger, stack: u32) -> impl Iterator<Item = &str> {
    let calls = own_calls(ledger, stack);
    calls.map(|(_, call)| call.function.file.as_str()).filter(|file| !file.is_empty())
}

/// All of it as lines; `number` says which of its stacks is told.
pub fn lines(
    ledger: &Ledger,
    (row, course): (&Row, &Course),
    number: usize,
    sources: &Sources,
) -> Vec<Line> {
    let bold = |text: &str| Span::new(Ink::Bold, format!("{text:<10}"));
    let mut lines = vec![
        vec![Span::new(Ink::Bold, &*row.words)],
        vec![bold("IN USE"), bytes(row.live()).into()],
        vec![bold("ALLOCATED"), bytes(row.allocated()).into()],
    ];
    if let Some(growth) = course.growth {
        lines.push(vec![bold("GROWTH"), format!("{} a minute", compact::change(growth)).into()]);
    }
    if let Some(rate) = course.rate {
        let text = format!("{} a second", compact::with_interval(rate));
        lines.push(vec![bold("RATE"), text.into()]);
    }
    let stacks = stacks(ledger, row);
    let Some((stack, sum)) = stacks.get(number) else { return lines };
    lines.push(Vec::new());
    let which =
        format!("{} of {}: {} in use", number + 1, stacks.len(), bytes(sum.measure().bytes));
    lines.push(vec![bold("STACK"), which.into()]);
    for (_, call) in own_calls(ledger, *stack) {
        let place = heapattach_verdict::place::Place::of(&call);
        let note = if call.is_inlined { " inlined" } else { "" };
        let words = Span::from(format!("  {}", place.words()));
        lines.push(vec![words, Span::new(Ink::Dim, note)]);
        let line = call.line.and_then(|line| Some((line, sources.line(&place.file, line)?)));
        if let Some((number, text)) = line {
            let number = Span::new(Ink::Dim, format!("    {number:>6}  "));
            lines.push(vec![number, text.trim_start().into()]);
        }
    }
    let end = ledger.stacks.get(*stack).map_or(EndReason::Unknown, |stack| stack.end);
    if !end.is_whole() {
        let why = end.place();
        lines.push(vec![Span::new(Ink::Warning, format!("  the stack ends {why}"))]);
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::rows::rows;
    use heapattach_ledger::sample;
    use heapattach_verdict::site_sums::SiteNames;

    #[test]
    fn a_stack_is_told_with_lines_of_source_where_there_is_source() {
        let (ledger, mut sources) = (sample::ledger(), Sources::default());
        let all = rows(&mut SiteNames::default(), &Arc::new(ledger.clone()), true);
        let stack = stacks(&ledger, &all[0])[0].0;
        assert_eq!(files(&ledger, stack).collect::<Vec<_>>(), ["list.c", "list.c", "main.c"]);
        sources.take("list.c".to_owned(), Some(&"\tnode = malloc(64);\n".repeat(20)));
        sources.take("main.c".to_owned(), None);
        let told = lines(&ledger, (&all[0], &Course::default()), 0, &sources);
        let text: Vec<String> =
            told.iter().map(|l| l.iter().map(|span| span.text.as_str()).collect()).collect();
        assert!(
            text.contains(&"    12  node = malloc(64);".replace("    12", "        12")),
            "{text:?}"
        );
        assert!(text.iter().any(|line| line.starts_with("STACK     1 of 1: 62.5 KiB")), "{text:?}");
        assert!(text.iter().any(|line| line == "  main (main.c:7)"), "{text:?}");
    }
}
