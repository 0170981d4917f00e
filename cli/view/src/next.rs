//! What to do next, as it is typed: what the finding calls for first, then ways to look at the recording.

use std::path::Path;

use heapattach_verdict::summary::Advice;

use super::page::{Ink, LABEL, Page, columns};

/// Writes the next commands.
pub fn write_next(page: &mut Page, advice: &[Advice], file: Option<&Path>) {
    let named = file.map(|file| quoted(&file.to_string_lossy()));
    let typed = |one: &Advice| match (one.view.as_str(), &named) {
        ("", _) => Some(one.command.clone()),
        (view, Some(file)) => Some(format!("heapattach report {file} --view {view}")),
        // Nothing was written that could be viewed.
        (_, None) => None,
    };
    let told = advice.iter().filter_map(|one| Some((typed(one)?, one.why.clone())));
    let mut told: Vec<(String, String)> = told.collect();
    if let Some(file) = &named {
        told.push((
            format!("heapattach report {file} --view tree"),
            "or sites, top, peak, timeline, ...".to_owned(),
        ));
        told.push((
            format!("heapattach report {file} --format html"),
            "or pprof, flamegraph, heaptrack, ...".to_owned(),
        ));
    }
    for (number, (command, why)) in told.into_iter().enumerate() {
        let label = if number == 0 { "NEXT" } else { "" };
        if command.is_empty() {
            page.prose(label, Ink::Plain, &why);
            continue;
        }
        let told = format!("{command}   # {why}");
        let fits = page.width().is_none_or(|width| LABEL + columns(&told) <= width);
        page.command(label, if fits { &told } else { &command });
    }
}

/// As a shell takes it for one word.
pub fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+./,:@%=".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_whole_however_narrow_the_page() {
        let mut page = Page::new(Some(40), false);
        write_next(&mut page, &[], Some(Path::new("a-rather-long-name.4711.heapattach")));
        let text = page.finish();
        let command = "heapattach report a-rather-long-name.4711.heapattach --view tree";
        assert_eq!(text.lines().next(), Some(&*format!("NEXT      {command}")));
    }

    #[test]
    fn a_view_is_of_the_recording_or_left_out() {
        let advice = Advice { view: "mmap".into(), why: "why".into(), ..Advice::default() };
        let text = |file| {
            let mut page = Page::new(None, false);
            write_next(&mut page, std::slice::from_ref(&advice), file);
            page.finish()
        };
        let told = text(Some(Path::new("a b")));
        assert!(
            told.starts_with("NEXT      heapattach report 'a b' --view mmap   # why\n"),
            "{told}"
        );
        assert_eq!(text(None), "");
    }

    #[test]
    fn a_file_of_any_name_is_one_word_of_a_shell() {
        assert_eq!(quoted("./redis.7.heapattach"), "./redis.7.heapattach");
        assert_eq!(quoted("a b$(c)"), "'a b$(c)'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
