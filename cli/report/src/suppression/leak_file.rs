//! Files of LeakSanitizer: `leak:pattern` a line, `#` before remarks.

/// Longer patterns are not honest.
const LONGEST: usize = 4096;
/// So many lines that cannot be understood are told.
const MOST_COMPLAINTS: usize = 20;

/// The patterns with the numbers of their lines, and what was not understood.
pub fn parse(text: &str) -> (Vec<(usize, &str)>, Vec<String>) {
    let (mut rules, mut complaints) = (Vec::new(), Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match line.strip_prefix("leak:") {
            Some(pattern) if !pattern.is_empty() && pattern.len() <= LONGEST => {
                rules.push((number, pattern));
            }
            _ if complaints.len() < MOST_COMPLAINTS => {
                let shown: String = line.chars().take(60).map(harmless).collect();
                complaints.push(format!("line {number} is not a `leak:PATTERN`: `{shown}`"));
            }
            _ => {}
        }
    }
    (rules, complaints)
}

fn harmless(c: char) -> char {
    if c.is_control() { ' ' } else { c }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_and_empty_lines_are_passed_over_and_the_rest_is_complained_about() {
        let text = "# all known\n\n  leak:one\nleak:two*\r\nrace:three\nleak:\n";
        let (rules, complaints) = parse(text);
        assert_eq!(rules, [(3, "one"), (4, "two*")]);
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[0].contains("line 5") && complaints[0].contains("race:three"));
    }

    #[test]
    fn a_hostile_file_has_few_complaints() {
        let text = "\u{1b}[2J\n".repeat(1000);
        let (rules, complaints) = parse(&text);
        assert!(rules.is_empty());
        assert_eq!(complaints.len(), MOST_COMPLAINTS);
        assert!(!complaints[0].contains('\u{1b}'));
    }
}
