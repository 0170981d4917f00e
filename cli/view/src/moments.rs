//! Three moments or more: what each place had, and whether it grew in every step.

use std::time::Duration;

use serde::Serialize;

use super::{
    page::{Ink, Page, Span},
    sites::{by, title, write_more},
    table::{Cell, Column, Table},
    view::Form,
};
use heapattach_ledger::{Ledger, Memory, Metric};
use heapattach_profile::Estimate;
use heapattach_text::quantity::clock;
use heapattach_verdict::{
    figure::{Unit, is_exact},
    moments::{Moments, Steadiness, Steps},
    place::Place,
    subject::Ask,
};

/// Its last part is raised whenever a field changes its meaning or goes away.
const SCHEMA: &str = "heapattach/view/moments/1";
/// Sites that are told with their callers, and how many of these.
const WITH_CALLERS: usize = 5;
const CALLERS: usize = 8;

/// All of them.
#[derive(Clone, Debug, Serialize)]
struct Document {
    schema: &'static str,
    moments: Vec<MomentRow>,
    #[serde(flatten)]
    table: SiteTable,
    /// The same of mapped memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    mapped: Option<SiteTable>,
}

/// What became of one kind of memory.
#[derive(Clone, Debug, Serialize)]
struct SiteTable {
    metric: Metric,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<Memory>,
    unit: Unit,
    total: Steps,
    /// What grew in every step first.
    sites: Vec<SiteRow>,
    more: usize,
}

/// One moment.
#[derive(Clone, Debug, Serialize)]
struct MomentRow {
    /// As it was typed.
    name: String,
    pid: i32,
    command: String,
    lasted_ms: u64,
    every: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    part: Vec<String>,
}

/// One place.
#[derive(Clone, Debug, Serialize)]
struct SiteRow {
    words: String,
    #[serde(flatten)]
    place: Place,
    #[serde(flatten)]
    steps: Steps,
    callers: Vec<Place>,
}

/// What became of each place from moment to moment; `names` are those of the moments.
/// Of mapped memory the same is told below, if no memory was chosen and the program maps some itself.
pub fn tell_moments(ledgers: &[Ledger], names: &[String], ask: &Ask, form: Form) -> String {
    let mut document = Document::new(ledgers, names, ask);
    document.mapped = mapped(ledgers, ask);
    match form {
        Form::Json => serde_json::to_string_pretty(&document).unwrap_or_default() + "\n",
        Form::Text(mut page) => {
            document.write(&mut page);
            page.finish()
        }
    }
}

fn mapped(ledgers: &[Ledger], ask: &Ask) -> Option<SiteTable> {
    if ask.memory.is_some() || ledgers.iter().all(|ledger| ledger.own_mapped() == [0, 0]) {
        return None;
    }
    let pages = ledgers.iter().map(|ledger| ledger.clone().of(Memory::Own));
    let ask = Ask { memory: Some(Memory::Own), ..*ask };
    Some(SiteTable::new(&pages.collect::<Vec<_>>(), &ask))
}

impl Document {
    fn new(ledgers: &[Ledger], names: &[String], ask: &Ask) -> Self {
        let named = ledgers.iter().zip(names).map(|(ledger, name)| MomentRow {
            name: name.clone(),
            pid: ledger.about.pid,
            command: ledger.about.command.clone(),
            lasted_ms: ledger.about.lasted_ms,
            every: ledger.about.every,
            part: ledger.about.part.clone(),
        });
        let (moments, table) = (named.collect(), SiteTable::new(ledgers, ask));
        Self { schema: SCHEMA, moments, table, mapped: None }
    }

    fn write(&self, page: &mut Page) {
        for (number, moment) in self.moments.iter().enumerate() {
            let lasted = clock(Duration::from_millis(moment.lasted_ms));
            let text = format!("{}: process {}, {lasted}", moment.name, moment.pid);
            page.prose(&format!("{}", number + 1), Ink::Plain, &text);
        }
        for table in [&self.table].into_iter().chain(&self.mapped) {
            page.gap();
            table.write(page);
        }
    }
}

impl SiteTable {
    fn new(ledgers: &[Ledger], ask: &Ask) -> Self {
        let moments = Moments(ledgers);
        let mut sites = moments.sites(ask);
        let more = sites.len().saturating_sub(ask.limit);
        sites.truncate(ask.limit);
        let rows = sites.into_iter().map(|site| SiteRow {
            words: site.place.words(),
            place: site.place,
            steps: site.steps,
            callers: site.callers,
        });
        let (total, sites) = (moments.total(ask), rows.collect());
        let Ask { metric, memory, unit, .. } = *ask;
        Self { metric, memory, unit, total, sites, more }
    }

    fn write(&self, page: &mut Page) {
        self.write_total(page);
        page.gap();
        if self.sites.is_empty() {
            return page.line(["none".into()]);
        }
        let mut table = Table::new(self.columns());
        for (number, site) in self.sites.iter().enumerate() {
            table.row(self.cells(site));
            if number < WITH_CALLERS && !site.callers.is_empty() {
                let callers = site.callers.iter().take(CALLERS).map(Place::words);
                let more = (site.callers.len() > CALLERS).then(|| "...".to_owned());
                table.callers(callers.chain(more));
            }
        }
        table.write(page);
        write_more(page, self.more, "places");
        if self.sites.iter().any(|site| has_interval(&site.steps, self.unit)) {
            page.gap();
            let text = "?: within the 95 % CI of the difference (--json has all intervals)";
            page.line([Span::new(Ink::Dim, text)]);
        }
    }

    fn write_total(&self, page: &mut Page) {
        let amounts = self.total.amounts.iter();
        let amounts: Vec<_> =
            amounts.map(|amount| self.unit.show(self.unit.of_amount(amount)).to_string()).collect();
        let title = title((self.metric, self.memory));
        let text = format!("{title}{}: {}", by(self.memory), amounts.join(", then "));
        page.prose("ALL", Ink::Plain, &text);
        let steady = self.sites.iter().filter(|site| site.steps.growth == Steadiness::EveryStep);
        let text = match steady.count() {
            0 => "no place certainly grew in every step".to_owned(),
            1 => "1 place grew in every step".to_owned(),
            many => format!("{many} places grew in every step"),
        };
        page.prose("", Ink::Plain, &text);
    }

    fn columns(&self) -> Vec<Column> {
        // Where it is narrow, steps go before what came of them.
        let mut columns = vec![Column::right("change"), Column::left("grew")];
        columns.extend(self.total.steps.iter().map(|_| Column::right("step").spare()));
        columns.push(Column::right("in the end").spare());
        columns.push(Column::left("where"));
        columns
    }

    fn cells(&self, site: &SiteRow) -> Vec<Cell> {
        let unit = self.unit;
        let (ink, grew) = match site.steps.growth {
            Steadiness::EveryStep => (Ink::More, "every step"),
            Steadiness::EveryStepOrChance => (Ink::Dim, "every step?"),
            Steadiness::SomeSteps => (Ink::Plain, "some steps"),
            Steadiness::No => (Ink::Less, "no"),
        };
        let mut cells = vec![
            Cell::figure(ink, unit.show_change(unit.of_amount(&site.steps.change))),
            Span::new(ink, grew).into(),
        ];
        for step in &site.steps.steps {
            let Estimate { value, .. } = unit.of_amount(&step.change);
            let doubt = if step.is_significant || value == 0.0 { "" } else { "?" };
            let told = unit.show_change(Estimate { value, low: value, high: value });
            cells.push(format!("{told}{doubt}").into());
        }
        let last = site.steps.amounts.last();
        cells.push(
            last.map_or_else(
                || String::new().into(),
                |last| unit.show(unit.of_amount(last)).into(),
            ),
        );
        cells.push(Span::new(Ink::Bold, &site.words).into());
        cells
    }
}

fn has_interval(steps: &Steps, unit: Unit) -> bool {
    steps.steps.iter().any(|step| !is_exact(unit.of_amount(&step.change)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::sample;
    use heapattach_profile::Sum;

    fn ledgers(sum: impl Fn(u64) -> Sum) -> Vec<Ledger> {
        let ledger = |blocks| {
            let mut ledger = sample::ledger();
            ledger.rows[0].set(Metric::Live, &sum(blocks));
            ledger.total.set(Metric::Live, &Sum::default());
            for row in 0..ledger.rows.len() {
                let sum = ledger.rows[row].sum(Metric::Live);
                ledger.total.add(Metric::Live, &sum);
            }
            ledger
        };
        [500, 700, 1000].map(ledger).to_vec()
    }

    fn told(ledgers: &[Ledger], form: Form) -> String {
        let names = ["A", "B", "C"].map(str::to_owned);
        tell_moments(ledgers, &names, &Ask::default(), form)
    }

    #[test]
    fn what_grows_each_time_is_told_with_its_steps() {
        let text =
            told(&ledgers(|blocks| Sum::exact(64, blocks)), Form::Text(Page::new(None, false)));
        let expected = "\
1         A: process 4242, 20.0 s
2         B: process 4242, 20.0 s
3         C: process 4242, 20.0 s

ALL       in use: 71.2 KiB, then 83.8 KiB, then 102.5 KiB
          1 place grew in every step

   change  grew             step       step  in the end  where
+31.2 KiB  every step  +12.5 KiB  +18.8 KiB    62.5 KiB  make_node (list.c)
                                                         from grow_list (list.c:40) < main (main.c:7)
      0 B  no                0 B        0 B    40.0 KiB  main (main.c)
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_narrow_page_has_the_name_and_whether_it_grew() {
        let ledgers = ledgers(|blocks| Sum::sampled(64, blocks, 4096));
        let text = told(&ledgers, Form::Text(Page::new(Some(80), false)));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        let row = text.lines().find(|line| line.contains("make_node (list.c)")).unwrap();
        assert!(row.contains("every step"), "{text}");
        assert!(text.contains("(--json has all intervals)"), "{text}");
    }

    #[test]
    fn mappings_that_grow_each_time_are_told_below() {
        let mut ledgers = ledgers(|blocks| Sum::exact(64, blocks));
        for (number, ledger) in (1..).zip(&mut ledgers) {
            ledger.stacks.edit(1, |stack| stack.cause = 0);
            ledger.functions[0].name = "Buffer::map".to_owned();
            ledger.rows[1].mapped_live = number << 16;
            ledger.total.mapped_live = number << 16;
        }
        let text = told(&ledgers, Form::Text(Page::new(None, false)));
        let expected = "
ALL       still mapped by the program itself: 64.0 KiB, then 128.0 KiB, then 192.0 KiB
          1 place grew in every step

    change  grew             step       step  in the end  where
+128.0 KiB  every step  +64.0 KiB  +64.0 KiB   192.0 KiB  Buffer::map (malloc.c)
                                                          from main (main.c:7)
";
        assert!(text.ends_with(expected), "{text}");
        let json: serde_json::Value = serde_json::from_str(&told(&ledgers, Form::Json)).unwrap();
        assert_eq!(json["mapped"]["sites"][0]["growth"], "every_step");
        assert_eq!(json["mapped"]["memory"], "own");
    }

    #[test]
    fn scripts_have_every_interval() {
        let ledgers = ledgers(|blocks| Sum::sampled(64, blocks, 4096));
        let json: serde_json::Value = serde_json::from_str(&told(&ledgers, Form::Json)).unwrap();
        assert_eq!(json["schema"], SCHEMA);
        assert_eq!(json["moments"][1]["name"], "B");
        let site = &json["sites"][0];
        assert_eq!(
            (&site["function"], &site["growth"]),
            (&"make_node".into(), &"every_step".into())
        );
        let step = &site["steps"][0]["bytes"];
        let [value, low, high] = ["value", "low", "high"].map(|end| step[end].as_f64().unwrap());
        assert!(low < value && value < high, "{step}");
        assert_eq!(site["amounts"].as_array().map(Vec::len), Some(3));
    }
}
