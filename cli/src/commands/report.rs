//! `heapattach report FILE`.

use heapattach_verdict::subject::Subject;

use crate::{
    args::{FileFormat, ReportArgs},
    exit_status::Exit,
    open_recording::{read, refuse, window, write_file, write_text},
    output::complain,
};
use heapattach_view::{Form, Page, View, write_next};

/// Shows a recording, or writes it in another format.
pub fn report(args: &ReportArgs) -> Exit {
    let window = window(args.since, args.until);
    if window.as_ref().is_some_and(|window| window.start >= window.end) {
        complain("--since must come before --until");
        return Exit::Usage;
    }
    let look = &args.look;
    let ledger = match read(&args.file, window, look, look.format == Some(FileFormat::Html)) {
        Ok(ledger) => ledger,
        Err(error) => return refuse(&error),
    };
    let subject = Subject::of(&ledger);
    if let Some(format) = look.format {
        return write_file(&subject, format, &args.file, look, !args.no_source);
    }
    if look.json {
        return write_text(&args.view.tell(&subject, &look.ask(), Form::Json), look);
    }
    let page = || Page::for_stream(look.color, &std::io::stdout());
    let mut text = args.view.tell(&subject, &look.ask(), Form::Text(page()));
    if args.view == View::Summary {
        let mut more = page();
        write_next(&mut more, &[], Some(&args.file));
        text.push_str(&more.finish());
    }
    write_text(&text, look)
}
