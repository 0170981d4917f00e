//! Blocks as a manual page.

use super::{blocks::Block, plain};

/// Tables are laid out before the typesetter sees them.
const TABLE_WIDTH: usize = 76;

/// A page of section 7.
pub fn render(topic: &str, about: &str, blocks: &[Block]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut out = format!(
        ".TH HEAPATTACH\\-{} 7 \"\" \"heapattach {version}\"\n.SH NAME\n\
         heapattach\\-{topic} \\- {}\n.SH DESCRIPTION\n",
        topic.to_uppercase(),
        escaped(about),
    );
    for block in blocks {
        match block {
            Block::Heading(1, _) => {}
            Block::Heading(_, text) => out += &format!(".SH {}\n", escaped(&text.to_uppercase())),
            Block::Prose(text) => out += &format!(".PP\n{}\n", escaped(text)),
            Block::Item(mark, text) => {
                let mark = if mark.starts_with('-') { "\\(bu" } else { mark.trim() };
                out += &format!(".IP \"{mark}\" 4\n{}\n", escaped(text));
            }
            Block::Code(lines) => out += &verbatim(lines.iter().map(String::as_str), 4),
            Block::Table(_) => {
                let text = plain::render(std::slice::from_ref(block), TABLE_WIDTH);
                out += &verbatim(text.lines(), 0);
            }
        }
    }
    out + ".SH SEE ALSO\nheapattach(1)\n"
}

fn verbatim<'a>(lines: impl Iterator<Item = &'a str>, indent: usize) -> String {
    let lines = lines.map(|line| format!("{}\n", escaped(line))).collect::<String>();
    format!(".PP\n.RS {indent}\n.nf\n{lines}.fi\n.RE\n")
}

/// Text in which nothing is a command of the typesetter, and a hyphen is one that can be copied.
fn escaped(text: &str) -> String {
    format!("\\&{}", text.replace('\\', "\\e").replace('-', "\\-"))
}

#[cfg(test)]
mod tests {
    use super::{super::blocks::parse, *};

    #[test]
    fn a_chapter_is_a_page() {
        let page = render("x", "an example", &parse("# X\n\n.no command\n\n    run \\ -p 1\n"));
        assert!(page.starts_with(".TH HEAPATTACH\\-X 7 "), "{page}");
        assert!(page.contains("\nheapattach\\-x \\- \\&an example\n"), "{page}");
        assert!(page.contains("\n\\&.no command\n") && page.contains("\n\\&run \\e \\-p 1\n"));
    }
}
