//! `heapattach diff A B ...`.

use std::time::Duration;

use heapattach_verdict::subject::Subject;

use crate::{
    args::{DiffArgs, LookArgs},
    exit_status::Exit,
    moment::compare,
    open_recording::{moment, read, refuse, window, write_file, write_text},
    output::complain,
};
use heapattach_ledger::Ledger;
use heapattach_recording::RecordingError;
use heapattach_view::{Form, View, tell_moments};

/// Shows what became different.
pub fn diff(args: &DiffArgs) -> Exit {
    if let Some(exit) = compare(args) {
        return exit;
    }
    if let Err(error) = look_at_form(args) {
        complain(&error);
        return Exit::Usage;
    }
    let look = &args.look;
    let ledgers: Result<Vec<_>, _> = args.moments.iter().map(|text| open(text, look)).collect();
    let ledgers = match ledgers {
        Ok(ledgers) => ledgers,
        Err(error) => return refuse(&error),
    };
    let form = || match look.json {
        true => Form::Json,
        false => Form::Text(look.page()),
    };
    let ([base, now], [_, after]) = (&ledgers[..], &args.moments[..]) else {
        let text = tell_moments(&ledgers, &args.moments, &look.ask(), form());
        return write_text(&text, look);
    };
    let subject = Subject { now, base: Some(base) };
    if let Some(format) = look.format {
        return write_file(&subject, format, moment(after).0.as_path(), look, false);
    }
    write_text(&view(args).tell(&subject, &look.ask(), form()), look)
}

/// Whether so many can be shown in the form that was chosen.
fn look_at_form(args: &DiffArgs) -> Result<(), String> {
    let is_two = args.moments.len() == 2;
    match args.look.format {
        Some(format) if !format.can_compare() => {
            let name = format.name();
            Err(format!("{name} cannot show two recordings; use html, pprof or collapsed"))
        }
        Some(format) if !is_two => {
            let name = format.name();
            Err(format!("{name} cannot show more than two recordings; leave out --format"))
        }
        _ if !is_two && view(args) != View::Sites => {
            let name = view(args).name();
            Err(format!("`{name}` cannot show more than two recordings; use sites"))
        }
        _ => Ok(()),
    }
}

fn view(args: &DiffArgs) -> View {
    args.view.unwrap_or(View::Sites)
}

fn open(text: &str, look: &LookArgs) -> Result<Ledger, RecordingError> {
    let (path, until): (_, Option<Duration>) = moment(text);
    read(&path, window(None, until), look, false).map(|ledger| look.chosen(ledger))
}
