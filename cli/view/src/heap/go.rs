//! The objects of a Go program: what holds most, and goroutines that wait for ever.

use heapattach_report::{Amount, CensusReport, GoAsked, GoHeapReport, GoHolder, GoLeak};
use heapattach_text::quantity::{bytes, count};

use super::{FEW, MANY, go_excess::excess};
use crate::{
    page::{Ink, Page, Span},
    table::{Column, Table},
};

/// What holds less than this part of all is not shown, nor what is nested deeper.
const LEAST_PERCENT: u64 = 1;
const DEEPEST: usize = 12;

/// What belongs on the first screen.
pub(super) fn write_go_summary(page: &mut Page, report: &CensusReport) {
    let Some(go) = &report.go else { return };
    if let Some(error) = &go.error {
        return page.prose("GO", Ink::Warning, &format!("{}: {error}", go.version));
    }
    let text = format!(
        "{}: {} in {} objects, of which {} are garbage that was not collected yet; {} goroutines, {} of \
         stacks",
        go.version,
        bytes(go.allocated.bytes),
        count(go.allocated.blocks),
        bytes(go.allocated.bytes.saturating_sub(go.reached.bytes)),
        count(go.goroutines),
        bytes(go.stacks),
    );
    page.prose("GO", Ink::Bold, &text);
    for leak in go.leaked.iter().take(FEW) {
        page.prose("LEAKED", Ink::Warning, &leaked(leak));
    }
    if let Some(text) = largest(go) {
        page.prose("KEPT BY", Ink::Bold, &text);
    }
    let least = go.reached.bytes / 100 * LEAST_PERCENT;
    for one in go.excess.iter().filter(|one| one.kept.bytes >= least).take(FEW) {
        page.prose("EXCESS", Ink::Warning, &excess(one));
    }
}

fn leaked(leak: &GoLeak) -> String {
    let created = match leak.created_by.as_str() {
        "" => String::new(),
        by => format!(", started by {by}"),
    };
    format!(
        "{} goroutines wait for ever in {}{created}: nothing else has their channels; they retain {} in {} \
         objects, and {} of stacks",
        count(leak.goroutines),
        leak.function,
        bytes(leak.retained.bytes),
        count(leak.retained.blocks),
        bytes(leak.stacks),
    )
}

/// The path that most is held by, as far as more than half of it goes on.
fn largest(go: &GoHeapReport) -> Option<String> {
    let top = |before: u64| {
        let is_next = |holder: &(usize, &GoHolder)| holder.1.before == Some(before);
        let all = go.holders.iter().enumerate().filter(is_next);
        all.max_by_key(|(_, holder)| holder.all.bytes)
    };
    // What the runtime has for itself is of no interest, unless it is most: timers are the program's.
    let weight = |holder: &(usize, &GoHolder)| {
        let is_own = !holder.1.name.starts_with("runtime.");
        if is_own { holder.1.all.bytes.saturating_mul(4) } else { holder.1.all.bytes }
    };
    let first = go.holders.iter().enumerate().filter(|(_, holder)| holder.before.is_none());
    let (mut at, mut holder) = first.max_by_key(weight)?;
    let first = holder.all.bytes;
    let mut names = vec![holder.name.as_str()];
    while let Some((next, inner)) = top(at as u64).filter(|(_, inner)| inner.all.bytes * 2 > first)
    {
        names.push(&inner.name);
        (at, holder) = (next, inner);
    }
    let path = names.join(" > ");
    let held = |of: &Amount| format!("{} in {} objects", bytes(of.bytes), count(of.blocks));
    Some(format!("{path}: {}", held(&holder.all)))
}

/// What holds most, as a tree.
pub(super) fn write_go(page: &mut Page, report: &CensusReport) {
    let Some(go) = &report.go else {
        return page.line(["no Go runtime was recognised in the process".into()]);
    };
    write_go_summary(page, report);
    if let Some(asked) = &go.asked {
        return write_asked(page, asked);
    }
    if go.holders.is_empty() {
        return;
    }
    page.gap();
    let columns = [Column::right("kept"), Column::right("objects"), Column::left("by")];
    let mut table = Table::new(columns);
    let mut left = MANY * 2;
    write_below(go, None, 0, &mut left, &mut table);
    table.write(page);
    if !go.sampled.is_empty() {
        page.gap();
        write_sampled(page, go);
    }
    if go.profile.iter().any(|row| row.class.is_some()) {
        page.gap();
        write_profile(page, go);
    }
    let typed = go.typed.bytes.saturating_mul(1000).checked_div(go.reached.bytes).unwrap_or(0);
    let text =
        format!("{}.{} % of these bytes have a known type (--view types)", typed / 10, typed % 10);
    page.line([Span::new(Ink::Dim, text)]);
}

/// Objects of the runtime's own profile: who allocated them, what they are, and what holds them.
fn write_sampled(page: &mut Page, go: &GoHeapReport) {
    let columns = [
        Column::right("sampled"),
        Column::left("allocated by"),
        Column::left("type"),
        Column::left("kept by"),
    ];
    let mut table = Table::new(columns);
    for row in go.sampled.iter().take(FEW * 2) {
        let class = row.class.clone().unwrap_or_else(|| "?".to_owned());
        let path = row.held_by.join(" > ");
        table.row([bytes(row.estimate.bytes), row.allocated_by.clone(), class, path]);
    }
    table.write(page);
}

/// The runtime's own profile, by type.
fn write_profile(page: &mut Page, go: &GoHeapReport) {
    let columns = [
        Column::right("in use"),
        Column::right("allocated"),
        Column::right("stacks"),
        Column::left("type that the sampled stacks allocate"),
    ];
    let mut table = Table::new(columns);
    for row in go.profile.iter().take(FEW * 4) {
        let class = row.class.clone().unwrap_or_else(|| "?".to_owned());
        table.row([bytes(row.live.bytes), bytes(row.allocated.bytes), count(row.stacks), class]);
    }
    table.write(page);
}

/// What holds the objects that were asked for.
fn write_asked(page: &mut Page, asked: &GoAsked) {
    page.gap();
    let named = asked.named.as_ref().map(|name| format!(" ({name})")).unwrap_or_default();
    let text = match asked.objects.blocks {
        0 => format!("no object that is reached is {}", asked.what),
        objects => format!(
            "{}{named}: {} in {} objects, by {} paths",
            asked.what,
            bytes(asked.objects.bytes),
            count(objects),
            count(asked.different_paths)
        ),
    };
    page.prose("WHO HOLDS", Ink::Bold, &text);
    let columns = [Column::right("kept"), Column::right("objects"), Column::left("by")];
    let mut table = Table::new(columns);
    for path in asked.paths.iter().take(MANY) {
        let Amount { bytes: held, blocks } = path.objects;
        table.row([bytes(held), count(blocks), path.path.join(" > ")]);
    }
    table.write(page);
}

fn write_below(
    go: &GoHeapReport,
    before: Option<u64>,
    depth: usize,
    left: &mut usize,
    table: &mut Table,
) {
    let all = (0..).zip(&go.holders).filter(|(_, holder)| holder.before == before);
    let least = go.reached.bytes / 100 * LEAST_PERCENT;
    let mut all: Vec<_> = all.filter(|(_, holder)| holder.all.bytes >= least).collect();
    all.sort_by_key(|(_, holder)| std::cmp::Reverse(holder.all.bytes));
    for (number, holder) in all {
        if *left == 0 || depth > DEEPEST {
            return;
        }
        *left -= 1;
        let name = format!("{:indent$}{}", "", holder.name, indent = depth * 2);
        table.row([bytes(holder.all.bytes), count(holder.all.blocks), name]);
        write_below(go, Some(number), depth + 1, left, table);
    }
}

#[cfg(test)]
mod tests {
    use heapattach_report::GoProfiled;

    use super::*;

    fn go() -> CensusReport {
        let mut report = CensusReport::new(4711, "app".to_owned());
        let amount = |bytes, blocks| Amount { bytes, blocks };
        let holder = |before, name: &str, all| GoHolder {
            before,
            name: name.to_owned(),
            all,
            ..GoHolder::default()
        };
        report.go = Some(GoHeapReport {
            version: "go1.22.10".to_owned(),
            allocated: amount(1 << 20, 1000),
            reached: amount(1 << 20, 1000),
            holders: vec![
                holder(None, "main.cache", amount(1_000_000, 900)),
                holder(Some(0), "$mapval. (*main.user)", amount(900_000, 800)),
                holder(Some(1), "name. (string)", amount(300_000, 100)),
                holder(None, "main.small", amount(10, 1)),
            ],
            leaked: vec![GoLeak {
                function: "main.worker".to_owned(),
                created_by: "main.serve".to_owned(),
                goroutines: 12,
                ..GoLeak::default()
            }],
            ..GoHeapReport::default()
        });
        report
    }

    #[test]
    fn the_first_screen_names_goroutines_that_wait_for_ever_and_the_largest_holder() {
        let mut page = Page::new(Some(200), false);
        write_go_summary(&mut page, &go());
        let text = page.finish();
        assert!(text.contains("12 goroutines wait for ever in main.worker"), "{text}");
        assert!(text.contains("started by main.serve"), "{text}");
        assert!(text.contains("main.cache > $mapval. (*main.user): "), "{text}");
    }

    #[test]
    fn the_profile_is_told_by_type_where_one_is_known() {
        let mut report = go();
        let row = |class: Option<&str>, bytes| GoProfiled {
            class: class.map(str::to_owned),
            stacks: 2,
            live: Amount { bytes, blocks: 1 },
            allocated: Amount { bytes: bytes * 2, blocks: 2 },
        };
        let text = |report: &CensusReport| {
            let mut page = Page::new(Some(200), false);
            write_go(&mut page, report);
            page.finish()
        };
        report.go.as_mut().unwrap().profile = vec![row(None, 1 << 20)];
        assert!(!text(&report).contains("type that the sampled stacks allocate"));
        report.go.as_mut().unwrap().profile.push(row(Some("main.leaf"), 1 << 10));
        let text = text(&report);
        assert!(text.contains("1.0 MiB    2.0 MiB       2  ?"), "{text}");
        assert!(text.contains("1.0 KiB    2.0 KiB       2  main.leaf"), "{text}");
    }

    #[test]
    fn the_tree_shows_what_holds_at_least_a_hundredth() {
        let mut page = Page::new(Some(200), false);
        write_go(&mut page, &go());
        let text = page.finish();
        assert!(text.contains("\n") && text.contains("    name. (string)"), "{text}");
        assert!(!text.contains("main.small"), "{text}");
    }
}
