//! What became different from one moment to the next.

use std::path::Path;

use heapattach_moment::{Difference, Moment, is_moment};
use heapattach_view::tell_difference;

use super::open;
use crate::{args::DiffArgs, exit_status::Exit, open_recording::write_text, output::complain};

/// Rows of each kind.
const ROWS: usize = 10;

/// Compares moments, if one of the files is one; recordings are not for here.
pub fn compare(args: &DiffArgs) -> Option<Exit> {
    let are_moments = args.moments.iter().map(|name| is_moment(Path::new(name)));
    let are_moments: Vec<bool> = are_moments.collect();
    if !are_moments.contains(&true) {
        return None;
    }
    if let Err(error) = look_at(args, &are_moments) {
        complain(&error);
        return Some(Exit::Usage);
    }
    let read = |name: &String| open(Path::new(name)).map(|moment| (name.clone(), moment));
    let moments: Result<Vec<(String, Moment)>, Exit> = args.moments.iter().map(read).collect();
    let difference = match moments {
        Ok(moments) => Difference::of(&moments),
        Err(exit) => return Some(exit),
    };
    let look = &args.look;
    let text = match look.json {
        true => serde_json::to_string_pretty(&difference).unwrap_or_default() + "\n",
        false => tell_difference(&difference, look.limit.unwrap_or(ROWS), look.page()),
    };
    Some(write_text(&text, look))
}

/// Whether they can be compared, as it was typed.
fn look_at(args: &DiffArgs, are_moments: &[bool]) -> Result<(), String> {
    let named = |is_one: bool| {
        let mut all = args.moments.iter().zip(are_moments);
        all.find(|(_, is_moment)| **is_moment == is_one).map(|(name, _)| name.as_str())
    };
    if let (Some(moment), Some(other)) = (named(true), named(false)) {
        return Err(format!(
            "{moment} is a moment, and {other} is not: a moment and a recording cannot be compared; take two \
             moments with heapattach heap -p PID -o FILE.heapattach-moment"
        ));
    }
    if args.look.format.is_some() {
        return Err("moments are compared as text or as --json; leave out --format".to_owned());
    }
    if args.view.is_some() {
        return Err("a comparison of moments has one view; leave out --view".to_owned());
    }
    match args.look.only_of_recordings() {
        Some(option) => Err(format!("these are moments, and {option} is of recordings")),
        None => Ok(()),
    }
}
