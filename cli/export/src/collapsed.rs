//! A line per stack: its calls, the outermost first, separated by semicolons, a space, and bytes.
//! What flamegraph.pl, inferno, speedscope and many others read. There is no place for comments.

use std::io::{self, BufWriter, Write};

use super::{harmless, tree::Tree};
use heapattach_ledger::{Ledger, Metric};

/// Writes the bytes of a metric by stack, in the order of names.
pub fn write(ledger: &Ledger, metric: Metric, out: &mut dyn Write) -> io::Result<()> {
    lines([ledger], metric, out)
}

/// Writes what was and what is, as differential flame graphs are made of it.
pub fn write_difference(
    now: &Ledger,
    base: &Ledger,
    metric: Metric,
    out: &mut dyn Write,
) -> io::Result<()> {
    lines([base, now], metric, out)
}

fn lines<const N: usize>(
    ledgers: [&Ledger; N],
    metric: Metric,
    out: &mut dyn Write,
) -> io::Result<()> {
    let tree = Tree::new(ledgers, metric, harmless::call);
    let mut out = BufWriter::new(out);
    for (calls, bytes) in tree.stacks() {
        for (at, call) in calls.enumerate() {
            out.write_all(if at > 0 { b";" } else { b"" })?;
            out.write_all(call.as_bytes())?;
        }
        bytes.iter().try_for_each(|bytes| write!(out, " {bytes}"))?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;

    fn text(ledger: &Ledger, metric: Metric) -> String {
        let mut text = Vec::new();
        write(ledger, metric, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn each_stack_is_a_line_with_its_bytes() {
        let ledger = sample::ledger();
        let live = "main;grow_list;make_node;malloc 64000\nmain;malloc 40960\n";
        assert_eq!(text(&ledger, Metric::Live), live);
        let temporary = "main;grow_list;make_node;malloc 6400\n\
                         work<int>(std::string const&);malloc 1040000\n";
        assert_eq!(text(&ledger, Metric::Temporary), temporary);
    }

    #[test]
    fn a_difference_has_what_was_and_what_is() {
        let (now, mut base) = (sample::ledger(), sample::ledger());
        base.functions[2].name = "shrink_list".to_owned();
        let mut text = Vec::new();
        write_difference(&now, &base, Metric::Live, &mut text).unwrap();
        let expected = "main;grow_list;make_node;malloc 0 64000\nmain;malloc 40960 40960\n\
                        main;shrink_list;make_node;malloc 64000 0\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }

    #[test]
    fn no_name_can_forge_a_stack_or_a_line() {
        let mut ledger = sample::ledger();
        ledger.functions[3].name = "main;evil 1\nforged;stack 2".to_owned();
        let text = text(&ledger, Metric::Live);
        assert_eq!(text.lines().count(), 2);
        assert!(text.contains("main:evil 1 forged:stack 2;malloc 40960\n"), "{text}");
    }

    #[test]
    fn stacks_with_the_same_names_are_one() {
        let mut ledger = sample::ledger();
        ledger.functions[3].name = ledger.functions[4].name.clone();
        ledger.rows[2].heap = ledger.rows[1].heap.clone();
        ledger.total = Default::default();
        ledger.rows.iter().for_each(|row| ledger.total.merge(row));
        assert!(text(&ledger, Metric::Live).contains("string const&);malloc 81920\n"));
    }
}
