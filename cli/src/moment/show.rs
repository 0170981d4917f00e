//! Shows a moment, and writes it where the user wants it.

use std::path::{Path, PathBuf};

use heapattach_files::output_file::{self, Readers};
use heapattach_report::CensusReport;
use heapattach_view::{HeapView, Page, quoted, tell_placed_sites};

use crate::{
    args::{
        MomentForm,
        json::{self, JsonArg},
    },
    exit_status::Exit,
    moment::sites_of,
    output::{complain, print},
};

/// What holds the objects of a Go program: so many rows are told.
const GO_HOLDERS: usize = 5_000;
/// Places that allocated, of each kind.
const SITES: usize = 30;

/// What is shown of a moment, and what is written.
#[derive(Clone, Debug)]
pub struct Show {
    /// As text.
    pub view: HeapView,
    /// In the place of text, or beside it.
    pub json: Option<JsonArg>,
    /// The same moment as a file, in this form.
    pub output: Option<(PathBuf, MomentForm)>,
    /// Whether the command line is left out of the file.
    pub redact: bool,
    /// The file that text or JSON goes to, not standard output.
    pub text_to: Option<PathBuf>,
    /// How wide text is, and whether it has colours.
    pub page: Page,
}

impl Show {
    /// The same of a file: what it does not have is refused by name.
    pub fn tell_file(self, report: CensusReport, file: &Path) -> Exit {
        if let Some(missing) = self.view.missing(&report) {
            complain(&format!("{}: {missing}", file.display()));
            return Exit::Failed;
        }
        let sites = (self.view == HeapView::Pins).then(|| sites_of(file, &report)).flatten();
        let sites = match sites.transpose() {
            Ok(sites) => sites,
            Err(why) => {
                complain(&why);
                // It has nothing else of this.
                if report.pins.is_none() {
                    return Exit::Failed;
                }
                None
            }
        };
        let more = sites.map(|sites| tell_placed_sites(&sites, SITES, self.page.clone()));
        self.tell_more(report, &more.unwrap_or_default())
    }

    /// Does it; answers as the look itself has ended.
    pub fn tell(self, report: CensusReport) -> Exit {
        self.tell_more(report, "")
    }

    /// The same with text behind it.
    fn tell_more(self, report: CensusReport, more: &str) -> Exit {
        let mut exit = Exit::from(report.status);
        // All else is told all the same.
        if let Some(none) = report.asked.arena.as_ref().and_then(|arena| arena.error.as_ref()) {
            complain(none);
            exit = if exit == Exit::Done { Exit::Failed } else { exit };
        }
        let failed = |error: &str| {
            complain(error);
            if exit == Exit::Done { Exit::Failed } else { exit }
        };
        if let Some(error) = &report.error {
            complain(error);
        } else if let Some((path, form)) = &self.output {
            let mut kept = report.clone();
            if self.redact {
                kept.command.clear();
            }
            match written(&kept, *form, path) {
                Ok(()) => complain(&next(path, *form)),
                Err(error) => return failed(&error),
            }
        }
        let is_failed = report.error.is_some();
        let report = report.told(GO_HOLDERS);
        let text = || serde_json::to_string_pretty(&report).unwrap_or_default();
        if json::is_instead(self.json.as_ref()) {
            return self.put(&text(), exit);
        }
        if let Some(path) = json::file(self.json.as_ref())
            && let Err(error) = output_file::write(path, text() + "\n", Readers::Owner)
        {
            return failed(&error);
        }
        if is_failed {
            return exit;
        }
        let told = self.view.tell(&report, self.page.clone()) + more;
        self.put(told.trim_end(), exit)
    }

    fn put(&self, text: &str, exit: Exit) -> Exit {
        let Some(path) = &self.text_to else { return print(text, exit) };
        match output_file::write(path, text.to_owned() + "\n", Readers::Owner) {
            Ok(()) => exit,
            Err(error) => {
                complain(&error);
                if exit == Exit::Done { Exit::Failed } else { exit }
            }
        }
    }
}

/// Writes it, with all rows that there are.
pub fn written(report: &CensusReport, form: MomentForm, path: &Path) -> Result<(), String> {
    let told = |error: std::io::Error| error.to_string();
    let bytes = match form {
        MomentForm::Moment => {
            heapattach_moment::encode(report, env!("CARGO_PKG_VERSION")).map_err(told)?
        }
        MomentForm::Pprof => heapattach_export::heap::pprof(report)?,
        MomentForm::Collapsed => heapattach_export::heap::collapsed(report)?.into_bytes(),
        MomentForm::Html => {
            let mut page = Vec::new();
            heapattach_export::heap::page::write(report, &mut page).map_err(told)?;
            page
        }
        MomentForm::Json => {
            let text = serde_json::to_string_pretty(&report.clone().told(GO_HOLDERS));
            (text.unwrap_or_default() + "\n").into_bytes()
        }
    };
    output_file::write(path, bytes, Readers::Owner)
}

/// Where it is, and what to type next.
fn next(path: &Path, form: MomentForm) -> String {
    let file = quoted(&path.to_string_lossy());
    // A pipe or a descriptor is read by another program.
    if path.starts_with("/dev") || path.as_os_str() == "-" {
        return format!("written to {file}");
    }
    let command = match form {
        MomentForm::Moment => {
            return format!(
                "written to {file}; show it with: heapattach report {file}; later: heapattach diff {file} LATER"
            );
        }
        MomentForm::Pprof => format!("go tool pprof -http=: {file}"),
        MomentForm::Collapsed => {
            format!("flamegraph.pl {file} > heap.svg   # or speedscope {file}")
        }
        MomentForm::Json => format!("jq .memory {file}"),
        MomentForm::Html => format!("xdg-open {file}"),
    };
    format!("written to {file}; open it with: {command}")
}
