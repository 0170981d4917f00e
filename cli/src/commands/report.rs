//! `heapattach report FILE`.

use std::{
    fs,
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use heapattach_verdict::subject::Subject;

use crate::{
    args::{FileFormat, ReportArgs},
    exit_status::Exit,
    open_recording::{read, refuse, window, write_file, write_text},
    output::complain,
};
use heapattach_files::input;
use heapattach_ledger::About;
use heapattach_view::{Form, SourceText, View, tell_source, write_next};

/// A file of source is not larger.
const SOURCE: u64 = 16 << 20;

/// Shows a recording, or writes it in another format.
pub fn report(args: &ReportArgs) -> Exit {
    let window = window(args.since, args.until);
    if window.as_ref().is_some_and(|window| window.start >= window.end) {
        complain("--since must come before --until");
        return Exit::Usage;
    }
    let look = &args.look;
    let is_source = args.view == View::Source && look.format.is_none();
    if let Some(function) = args.source_of.as_deref().filter(|_| !is_source) {
        complain(&format!("`{function}` is a function to list; type --view source {function}"));
        return Exit::Usage;
    }
    let ledger = match read(&args.file, window, look, look.format == Some(FileFormat::Html)) {
        // That view is of all mappings anyway.
        Ok(ledger) if args.view == View::Mmap => ledger,
        Ok(ledger) => look.chosen(ledger),
        Err(error) => return refuse(&error),
    };
    let subject = Subject::of(&ledger);
    if let Some(format) = look.format {
        return write_file(&subject, format, &args.file, look, !args.no_source);
    }
    let tell = |form| match args.view {
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
    if args.view == View::Summary {
        let mut more = look.page();
        write_next(&mut more, &[], Some(&args.file));
        text.push_str(&more.finish());
    }
    write_text(&text, look)
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
