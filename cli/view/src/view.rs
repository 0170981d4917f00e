//! The ways to look at a ledger.

use heapattach_verdict::subject::{Ask, Subject};
use heapattach_verdict::summary::Summary;
use serde::Serialize;

use crate::{
    classes::{Classes, Measured},
    flame::Flame,
    kernel::Kernel,
    mapped::Mapped,
    mmap::Mmap,
    page::Page,
    peak::Peak,
    sites::Sites,
    source::{Source, SourceText},
    summary,
    temporary::Temporary,
    threads::Threads,
    timeline::Timeline,
    top::Top,
    tree::Tree,
};

/// Ways to look at a ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// One screen: what can be said, who holds memory, and how much of it to believe.
    #[default]
    Summary,
    /// Functions: their own memory, and that of everything they called.
    Top,
    /// A tree of calls.
    Tree,
    /// The same as a flame graph.
    Flame,
    /// What allocated memory, with callers.
    Sites,
    /// Which threads did.
    Threads,
    /// Blocks by their size.
    Sizes,
    /// Blocks by how long they lived.
    Lifetimes,
    /// Blocks freed very soon.
    Temporary,
    /// The course of time.
    Timeline,
    /// What memory was made of when most was in use.
    Peak,
    /// Pages that were mapped.
    Mmap,
    /// What makes the process ask the kernel for memory.
    Kernel,
    /// Lines of source.
    Source,
}

/// What is told of every view beside itself.
#[derive(Serialize)]
struct Document<'a, V> {
    /// Its last part is raised whenever a field changes its meaning or goes away.
    schema: String,
    pid: i32,
    command: String,
    lasted_ms: u64,
    every: u64,
    /// What part of the recording it is about, in words; all of it, if there are none.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    part: &'a [String],
    #[serde(flatten)]
    view: V,
    /// The same of mapped memory, where no memory was chosen and the program maps some itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    mapped: Option<V>,
}

/// How a view is told.
pub enum Form {
    /// Text for a reader.
    Text(Page),
    /// JSON for a script.
    Json,
}

impl View {
    /// All views.
    pub const ALL: [Self; 14] = [
        Self::Summary,
        Self::Top,
        Self::Tree,
        Self::Flame,
        Self::Sites,
        Self::Threads,
        Self::Sizes,
        Self::Lifetimes,
        Self::Temporary,
        Self::Timeline,
        Self::Peak,
        Self::Mmap,
        Self::Kernel,
        Self::Source,
    ];

    /// Its name, as it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Summary => "summary",
            Self::Top => "top",
            Self::Tree => "tree",
            Self::Flame => "flame",
            Self::Sites => "sites",
            Self::Threads => "threads",
            Self::Sizes => "sizes",
            Self::Lifetimes => "lifetimes",
            Self::Temporary => "temporary",
            Self::Timeline => "timeline",
            Self::Peak => "peak",
            Self::Mmap => "mmap",
            Self::Kernel => "kernel",
            Self::Source => "source",
        }
    }

    /// Whether it can tell what became different.
    pub fn can_compare(self) -> bool {
        matches!(self, Self::Top | Self::Tree | Self::Sites)
    }

    /// The subject by this view.
    pub fn tell(self, subject: &Subject<'_>, ask: &Ask, form: Form) -> String {
        let ledger = subject.now;
        let telling = Telling { view: self, subject, form };
        match self {
            Self::Summary => telling.tell(&Summary::new(ledger), summary::write),
            Self::Top => telling.beside(ask, Top::new, Top::write),
            Self::Tree => telling.beside(ask, Tree::new, Tree::write),
            Self::Flame => telling.beside(ask, Flame::new, Flame::write),
            Self::Sites => telling.beside(ask, Sites::new, Sites::write),
            Self::Threads => telling.tell(&Threads::new(subject, ask), Threads::write),
            Self::Sizes => telling.tell(&Classes::new(ledger, Measured::Size), Classes::write),
            Self::Lifetimes => {
                telling.tell(&Classes::new(ledger, Measured::Lifetime), Classes::write)
            }
            Self::Temporary => telling.tell(&Temporary::new(subject, ask), Temporary::write),
            Self::Timeline => telling.tell(&Timeline::new(ledger), Timeline::write),
            Self::Peak => telling.tell(&Peak::new(subject, ask), Peak::write),
            Self::Mmap => telling.tell(&Mmap::new(subject, ask), Mmap::write),
            Self::Kernel => telling.tell(&Kernel::new(subject, ask), Kernel::write),
            Self::Source => telling.tell(&Source::new(subject, ask, None), Source::write),
        }
    }
}

/// The view `source` of the functions of this name, or of the largest, with the text of their files.
pub fn tell_source(
    subject: &Subject<'_>,
    ask: &Ask,
    form: Form,
    of: Option<&str>,
    read: impl FnMut(&str) -> Result<SourceText, String>,
) -> String {
    let mut source = Source::new(subject, ask, of);
    source.read(read);
    Telling { view: View::Source, subject, form }.tell(&source, Source::write)
}

/// One view on its way out.
struct Telling<'a> {
    view: View,
    subject: &'a Subject<'a>,
    form: Form,
}

impl Telling<'_> {
    fn tell<V: Serialize>(self, view: &V, write: impl Fn(&V, &mut Page)) -> String {
        self.tell_both(view, None, write)
    }

    /// With the same of mapped memory, where that is to be told.
    fn beside<V: Serialize>(
        self,
        ask: &Ask,
        new: impl Fn(&Subject<'_>, &Ask) -> V,
        write: impl Fn(&V, &mut Page),
    ) -> String {
        let mapped = Mapped::beside(self.subject, ask).map(|mapped| mapped.view(&new));
        let view = new(self.subject, ask);
        self.tell_both(&view, mapped.as_ref(), write)
    }

    fn tell_both<V: Serialize>(
        self,
        view: &V,
        mapped: Option<&V>,
        write: impl Fn(&V, &mut Page),
    ) -> String {
        let about = &self.subject.now.about;
        match self.form {
            Form::Text(mut page) => {
                summary::write_title(&mut page, self.subject.now);
                write(view, &mut page);
                if let Some(mapped) = mapped {
                    page.gap();
                    write(mapped, &mut page);
                }
                page.finish()
            }
            Form::Json => {
                let document = Document {
                    schema: format!("heapattach/view/{}/1", self.view.name()),
                    pid: about.pid,
                    command: about.command.clone(),
                    lasted_ms: about.lasted_ms,
                    every: about.every,
                    part: &about.part,
                    view,
                    mapped,
                };
                serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heapattach_ledger::{Ledger, sample};

    fn told(ledger: &Ledger, view: View, form: Form) -> String {
        view.tell(&Subject::of(ledger), &Ask::default(), form)
    }

    #[test]
    fn every_view_is_json_with_its_schema() {
        let ledger = sample::ledger();
        for view in View::ALL {
            let text = told(&ledger, view, Form::Json);
            let value: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["schema"], format!("heapattach/view/{}/1", view.name()));
            assert_eq!(value["pid"], 4242);
        }
    }

    #[test]
    fn nothing_is_too_wide_for_a_narrow_terminal() {
        let mut ledger = sample::ledger();
        ledger.functions[1].name = "名前".repeat(500);
        ledger.functions[4].name = "a\u{1b}]0;title\u{7}b\r\nc".repeat(30);
        for view in View::ALL {
            let text = told(&ledger, view, Form::Text(Page::new(Some(60), false)));
            let width = |line: &str| unicode_width::UnicodeWidthStr::width(line);
            assert!(text.lines().all(|line| width(line) <= 60), "{view:?}:\n{text}");
            assert!(!text.contains(['\u{1b}', '\r', '\u{7}']), "{view:?}: {text:?}");
        }
    }

    #[test]
    fn a_ledger_of_nothing_has_all_views() {
        for view in View::ALL {
            let text = told(&Ledger::default(), view, Form::Text(Page::new(None, true)));
            assert!(text.starts_with("process 0"), "{view:?}: {text}");
        }
    }

    #[test]
    fn numbers_of_a_hostile_file_are_told_too() {
        let mut ledger = sample::ledger();
        ledger.total.sizes =
            heapattach_ledger::Histogram::from_buckets(vec![-1e300, 1e300, f64::MAX]);
        ledger.total.mapped_live = u64::MAX;
        ledger.peak.value = f64::NAN;
        ledger.about.lasted_ms = u64::MAX;
        for moment in &mut ledger.moments {
            (moment.live, moment.allocated, moment.rss) = (f64::NAN, f64::INFINITY, Some(u64::MAX));
        }
        for view in View::ALL {
            for form in [Form::Text(Page::new(Some(70), false)), Form::Json] {
                assert!(told(&ledger, view, form).len() < 20_000, "{view:?}");
            }
        }
    }
}
