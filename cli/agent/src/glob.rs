//! Patterns with stars: `*` is any text without a slash, `**` any text, `?` one character that is not a
//! slash.

/// Longer texts are not compared: they match nothing.
const LONGEST: usize = 4096;

/// Whether the whole text is as the pattern says. Time is the product of both lengths at most.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    if pattern.len() > LONGEST || text.len() > LONGEST {
        return false;
    }
    // reached[i]: the pattern so far can have taken the first i bytes.
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    let mut at = 0;
    while at < pattern.len() {
        let is_double = pattern[at..].starts_with(b"**");
        let mut next = vec![false; text.len() + 1];
        for i in 0..=text.len() {
            next[i] = match pattern[at] {
                b'*' => reached[i] || i > 0 && next[i - 1] && (is_double || text[i - 1] != b'/'),
                b'?' => i > 0 && reached[i - 1] && text[i - 1] != b'/',
                byte => i > 0 && reached[i - 1] && text[i - 1] == byte,
            };
        }
        reached = next;
        at += if is_double { 2 } else { 1 };
    }
    reached[text.len()]
}

/// Whether a path, or one of those above it, is as the pattern says.
pub fn matches_path(pattern: &str, path: &str) -> bool {
    let ends = path.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
    ends.chain([path.len()]).any(|end| matches(pattern, &path[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stops_at_a_slash_and_two_do_not() {
        for (pattern, text, is) in [
            ("nginx*", "nginx-worker", true),
            ("nginx", "nginx-worker", false),
            ("/kubepods*/pod?", "/kubepods.slice/pod1", true),
            ("/kube*", "/kube/pod", false),
            ("/kube**", "/kube/pod/deep", true),
            ("", "", true),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), is, "{pattern} {text}");
        }
        assert!(matches_path("/system.slice/redis*", "/system.slice/redis.service/worker"));
        assert!(!matches_path("/system.slice/redis", "/system.slice/redis.service"));
    }

    proptest::proptest! {
        #[test]
        fn any_pattern_is_survived_and_a_text_is_like_itself(pattern: String, text in "[a-z/]{0,40}") {
            let _ = matches_path(&pattern, &text);
            assert!(matches(&text, &text) && matches("**", &text));
        }
    }
}
