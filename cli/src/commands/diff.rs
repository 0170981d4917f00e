//! `heapattach diff A B`.

use std::time::Duration;

use heapattach_verdict::subject::Subject;

use crate::{
    args::{DiffArgs, LookArgs},
    exit_status::Exit,
    open_recording::{moment, read, refuse, window, write_file, write_text},
    output::complain,
};
use heapattach_ledger::Ledger;
use heapattach_recording::RecordingError;
use heapattach_view::{Form, Page};

/// Shows what became different.
pub fn diff(args: &DiffArgs) -> Exit {
    let look = &args.look;
    if let Some(format) = look.format.filter(|format| !format.can_compare()) {
        let name = format.name();
        complain(&format!("{name} cannot show two recordings; use html, pprof or collapsed"));
        return Exit::Usage;
    }
    let ledgers =
        open(&args.before, look).and_then(|before| Ok((before, open(&args.after, look)?)));
    let (base, now) = match ledgers {
        Ok(ledgers) => ledgers,
        Err(error) => return refuse(&error),
    };
    let subject = Subject { now: &now, base: Some(&base) };
    if let Some(format) = look.format {
        return write_file(&subject, format, moment(&args.after).0.as_path(), look, false);
    }
    let form = if look.json {
        Form::Json
    } else {
        Form::Text(Page::for_stream(look.color, &std::io::stdout()))
    };
    write_text(&args.view.tell(&subject, &look.ask(), form), look)
}

fn open(text: &str, look: &LookArgs) -> Result<Ledger, RecordingError> {
    let (path, until): (_, Option<Duration>) = moment(text);
    read(&path, window(None, until), look, false)
}
