//! `heapattach report FILE`.

use std::{
    fs,
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use heapattach_verdict::subject::Subject;

use crate::{
    args::{FileFormat, MomentForm, ReportArgs, json::JsonArg},
    exit_status::Exit,
    moment::{Show, kept, open, written},
    open_recording::{read, refuse, window, write_file, write_text},
    output::complain,
    tables,
};
use heapattach_files::input;
use heapattach_ledger::About;
use heapattach_view::{Form, SourceText, View, tell_source, write_next};

/// A file of source is not larger.
const SOURCE: u64 = 16 << 20;

/// Shows a recording, or writes it in another format.
pub fn report(args: &ReportArgs) -> Exit {
    if heapattach_moment::is_moment(&args.file) {
        return of_moment(args);
    }
    let view = match args.view.of_recording() {
        Ok(view) => view,
        Err(error) => {
            complain(&error);
            return Exit::Usage;
        }
    };
    let window = window(args.since, args.until);
    if window.as_ref().is_some_and(|window| window.start >= window.end) {
        complain("--since must come before --until");
        return Exit::Usage;
    }
    let look = &args.look;
    if look.format == Some(FileFormat::Parquet) {
        return tables::write(args);
    }
    if args.host.is_some() || args.service.is_some() {
        complain("--host and --service are of --format parquet");
        return Exit::Usage;
    }
    let is_source = view == View::Source && look.format.is_none();
    if let Some(function) = args.source_of.as_deref().filter(|_| !is_source) {
        complain(&format!("`{function}` is a function to list; type --view source {function}"));
        return Exit::Usage;
    }
    let ledger = match read(&args.file, window, look, look.format == Some(FileFormat::Html)) {
        // That view is of all mappings anyway.
        Ok(ledger) if view == View::Mmap => ledger,
        Ok(ledger) => look.chosen(ledger),
        Err(error) => return refuse(&error),
    };
    let subject = Subject::of(&ledger);
    if let Some(format) = look.format {
        return write_file(&subject, format, &args.file, look, !args.no_source);
    }
    let tell = |form| match view {
        View::Source => {
            let of = args.source_of.as_deref();
            tell_source(&subject, &look.ask(), form, of, |path| source_text(path, &ledger.about))
        }
        view => view.tell(&subject, &look.ask(), form),
    };
    if look.json {
        return write_text(&tell(Form::Json), look);
    }
    let mut text = tell(Form::Text(look.page()));
    if view == View::Summary {
        let mut more = look.page();
        write_next(&mut more, &[], Some(&args.file));
        text.push_str(&more.finish());
        // What a session with --census left beside it.
        text.extend(kept(&args.file, &ledger.about).map(|census| census.tell(look.page())));
    }
    write_text(&text, look)
}

/// Shows a moment: the same screens as `heap`.
fn of_moment(args: &ReportArgs) -> Exit {
    let shown = match show(args) {
        Ok(shown) => shown,
        Err(error) => {
            complain(&error);
            return Exit::Usage;
        }
    };
    let moment = match open(&args.file) {
        Ok(moment) => moment,
        Err(exit) => return exit,
    };
    match shown {
        Shown::Screen(show) => show.tell_file(moment.census, &args.file),
        Shown::File(form) => {
            let path = args.look.output.clone().unwrap_or_else(|| "-".into());
            match written(&moment.census, form, &path) {
                Ok(()) => Exit::Done,
                Err(error) => {
                    complain(&error);
                    Exit::Failed
                }
            }
        }
    }
}

/// What is shown of a moment.
enum Shown {
    /// A view, or JSON.
    Screen(Show),
    /// A file for another program.
    File(MomentForm),
}

fn show(args: &ReportArgs) -> Result<Shown, String> {
    let look = &args.look;
    let is_cut = args.since.is_some() || args.until.is_some();
    let option = look.only_of_recordings().or(is_cut.then_some("--since and --until"));
    if let Some(option) = option {
        return Err(format!("this is a moment, and {option} is of recordings"));
    }
    if let Some(format) = look.format {
        return MomentForm::of_format(format).map(Shown::File);
    }
    let output = look.output.clone().filter(|path| path.as_os_str() != "-");
    if let Some(form) = output.as_deref().and_then(MomentForm::of).filter(|_| !look.json) {
        return Ok(Shown::File(form));
    }
    let view = args.view.of_moment()?;
    let json = look.json.then_some(JsonArg::Instead);
    Ok(Shown::Screen(Show {
        view,
        json,
        output: None,
        redact: false,
        text_to: output,
        page: look.page(),
    }))
}

/// A file of source, as it is here and now.
fn source_text(path: &str, about: &About) -> Result<SourceText, String> {
    let file = Path::new(path);
    if !file.is_absolute() {
        return Err(format!("{path} cannot be read: the compiler did not note its folder"));
    }
    let text = input::text(file, SOURCE)?;
    let end = UNIX_EPOCH
        .checked_add(Duration::from_secs(about.began))
        .and_then(|began| began.checked_add(Duration::from_millis(about.lasted_ms)));
    let changed = fs::metadata(file).and_then(|data| data.modified());
    Ok(SourceText { text, is_newer: changed.is_ok_and(|at| end.is_some_and(|end| at > end)) })
}
