//! A place in words in the room that there is: its file and what its function is in go before the
//! function's own name does.

use heapattach_text::short_name;

use super::page::{columns, shortened};

/// `  - ` before the branch of a tree, a function, and ` (list.c:12)` or ` in list`.
struct Words<'a> {
    before: &'a str,
    name: &'a str,
    after: &'a str,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Self {
        let name = text.trim_start_matches(' ');
        let name = name.strip_prefix("- ").unwrap_or(name);
        let before = &text[..text.len() - name.len()];
        let behind = if name.ends_with(')') { " (" } else { " in " };
        let end = name.rfind(behind).filter(|&at| at > 0).unwrap_or(name.len());
        Self { before, name: &name[..end], after: &name[end..] }
    }
}

/// In so many columns.
pub fn fitted(text: &str, room: usize) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    let Words { before, name, after } = Words::of(text);
    let within = |after: &str| {
        let room = room.checked_sub(columns(before) + columns(after))?;
        Some(format!("{before}{}{after}", short_name::fit(name, room)?))
    };
    let own = || format!("{before}{}", short_name::least(name));
    within(after).or_else(|| within("")).unwrap_or_else(|| shortened(&own(), room))
}

/// Columns of the least that is to be seen of it.
pub fn least(text: &str) -> usize {
    let Words { before, name, .. } = Words::of(text);
    columns(before) + columns(short_name::least(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_function_itself_stays_longest() {
        let text = "  - story::Index<int, std::string>::insert (story.cpp:17)";
        assert_eq!(fitted(text, 60), text);
        assert_eq!(fitted(text, 50), "  - story::Index<...>::insert (story.cpp:17)");
        assert_eq!(fitted(text, 30), "  - …::insert (story.cpp:17)");
        assert_eq!(fitted(text, 24), "  - …::Index<...>::insert".replace("…::Index<...>", "…"));
        assert_eq!(fitted(text, 10), "  - insert");
        assert_eq!(fitted(text, 8), "  - i…rt");
        assert_eq!(least(text), 10);
        assert_eq!(fitted("start_thread in libc.so.6", 14), "start_thread");
        assert_eq!(fitted("operator() (a.c:3)", 12), "operator()");
    }
}
