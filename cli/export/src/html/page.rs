//! The page of a session around its data.

use std::io::{self, Write};

use serde::Serialize;

use super::template::{LOADER, Template};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");

/// All of the script: each file may use those before it when it is loaded, and all of them later.
macro_rules! script {
    ($($more:literal)?) => {
        concat!(
            "'use strict';\n",
            include_str!("script/quantity.js"),
            include_str!("script/element.js"),
            include_str!("script/interval.js"),
            include_str!("script/data.js"),
            include_str!("script/kind.js"),
            include_str!("script/measure.js"),
            include_str!("script/window.js"),
            include_str!("script/stacks.js"),
            include_str!("script/colour.js"),
            include_str!("script/state.js"),
            include_str!("script/about.js"),
            include_str!("script/tiles.js"),
            include_str!("script/flame.js"),
            include_str!("script/graph.js"),
            include_str!("script/graph_keys.js"),
            include_str!("script/legend.js"),
            include_str!("script/source.js"),
            include_str!("script/flame_text.js"),
            include_str!("script/search.js"),
            include_str!("script/timeline.js"),
            include_str!("script/brush.js"),
            include_str!("script/table.js"),
            include_str!("script/table_keys.js"),
            include_str!("script/headline.js"),
            include_str!("script/histogram.js"),
            include_str!("script/mapped.js"),
            include_str!("script/help.js"),
            include_str!("script/link.js"),
            $(include_str!($more),)?
            include_str!("script/main.js"),
        )
    };
}

/// Of a page that stays as it is.
pub const SCRIPT: &str = script!();
/// Of one whose data are replaced by newer ones.
const LIVE_SCRIPT: &str = script!("script/live.js");

/// Writes the page with its data; one that `is_live` may ask where it came from for newer ones.
pub fn write(data: &(impl Serialize + Sync), is_live: bool, out: &mut dyn Write) -> io::Result<()> {
    let script = if is_live { LIVE_SCRIPT } else { SCRIPT };
    let template = Template { page: PAGE, style: STYLE, script, loader: LOADER, is_live };
    template.write(data, out)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{super::template::hash, *};

    #[test]
    fn no_two_things_of_the_script_have_one_name() {
        // Of two constants of one name the browser refuses all of the script, of two functions it takes one.
        let mut known: HashMap<&str, usize> = HashMap::new();
        for line in LIVE_SCRIPT.lines() {
            let words = ["const ", "let ", "function ", "class "];
            let Some(rest) = words.iter().find_map(|word| line.strip_prefix(word)) else {
                continue;
            };
            let names = match line.starts_with("const ") {
                // `const A = 0, B = 1;`
                true => rest.split(", ").filter_map(|one| Some(one.split_once(" = ")?.0)).collect(),
                false => {
                    vec![rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap()]
                }
            };
            names
                .into_iter()
                .filter(|name| !name.contains(|c: char| "({[`' ".contains(c)))
                .for_each(|name| *known.entry(name).or_default() += 1);
        }
        let twice: Vec<_> = known.iter().filter(|(_, number)| **number > 1).collect();
        assert!(known.len() > 100 && twice.is_empty(), "{twice:?} of {}", known.len());
    }

    #[test]
    fn the_hash_is_that_of_what_stands_between_the_tags() {
        let mut page = Vec::new();
        write(&"data", false, &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        let between = |open: &str, close: &str| {
            let (_, rest) = page.split_once(open).unwrap();
            hash(rest.split_once(close).unwrap().0)
        };
        let policy = page.split("content=\"").nth(1).unwrap().split('"').next().unwrap();
        assert!(policy.contains(&between("<script>", "</script>")), "{policy}");
        let main = "<script type=\"text/plain\" id=\"main\">";
        assert!(policy.contains(&between(main, "</script>")), "{policy}");
        assert!(policy.contains(&between("<style>", "</style>")), "{policy}");
        assert!(page.contains(r#"<script type="application/json" id="data">"data"</script>"#));
    }
}
