//! Names of functions as people write them: without parameters and the type that is returned, without
//! arguments of templates that are the default, and with long ones folded.
//!
//! ```
//! use heapattach_text::short_name::short_name;
//!
//! let whole = "void std::vector<int, std::allocator<int> >::emplace_back<int>(int&&)";
//! assert_eq!(short_name(whole), "std::vector<int>::emplace_back<int>");
//! assert_eq!(short_name("<alloc::vec::Vec<u8> as core::clone::Clone>::clone"), "<Vec<u8> as Clone>::clone");
//! assert_eq!(short_name("make_node"), "make_node");
//! ```
//!
//! What is read is the demangled text, which is all that a recording keeps. It may come from a hostile
//! file: any text is taken, in time linear to its length, and brackets that are not closed are closed.
//! What does not look like a name of C++ or Rust stays as it is: Python's `<module>`, Java's, Go's.

mod arguments;
mod fit;
mod path;
mod scan;

use std::borrow::Cow;

pub use fit::{fit, least};

/// What compilers append to the names of copies they made of a function.
const COPIES: [&str; 6] = [".constprop.", ".isra.", ".part.", ".cold", ".lto_priv.", ".llvm."];

/// The short form of a demangled name. Never empty, unless the name is.
pub fn short_name(name: &str) -> Cow<'_, str> {
    if !is_of_compiler(name) {
        return Cow::Borrowed(without_copy(name));
    }
    let short = path::function(scan::Dialect::of(name), name);
    if short.is_empty() { Cow::Borrowed(name) } else { Cow::Owned(short) }
}

/// Whether it has anything that C++ and Rust write and others do not.
fn is_of_compiler(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_>])".contains(&byte);
    let pairs = || name.as_bytes().windows(2);
    let has_path = pairs().any(|pair| pair == b"::");
    let has_list = pairs().any(|pair| is_letter(pair[0]) && b"(<".contains(&pair[1]));
    let is_operator = name.starts_with("operator") || name.contains(" operator");
    let is_thunk = path::PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    // A slash is of a path of a file, or of a Java class; but for the operator.
    let has_slash = name.replace("operator/", "").contains('/');
    (has_path || has_list || is_operator || is_thunk) && !has_slash && !name.starts_with('[')
}

/// `f` of `f.isra.0`. A name that begins so is not a copy of anything.
fn without_copy(name: &str) -> &str {
    let copy = COPIES.iter().filter_map(|copy| name.find(copy)).min();
    copy.filter(|&at| at > 0).map_or(name, |at| &name[..at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_of_others_stay_as_they_are() {
        let names = [
            "make_node",
            "<module>",
            "<lambda>",
            "[unknown]",
            "[cut: no unwind table]",
            "main.(*Tree).Insert",
            "net/http.(*conn).serve",
            "Ljava/lang/String;::hashCode",
            "LazyCompile:~serve (/srv/app.js:12)",
            "libstdc++.so.6.0.30+0xd44a2",
            "~FunctionTemplateInfo",
            "",
        ];
        for name in names {
            assert_eq!(short_name(name), name);
        }
        assert_eq!(short_name("serve.constprop.0"), "serve");
        assert_eq!(short_name(".cold"), ".cold");
    }

    #[test]
    fn a_name_that_was_cut_is_closed() {
        let cut = "std::map<std::__cxx11::basic_string<char, std::char_traits<char>, std::vec";
        assert_eq!(short_name(cut), "std::map<std::basic_string<...>>");
        assert_eq!(short_name("a::f(int, b<"), "a::f");
        assert_eq!(short_name("a::f)>]}"), "a::f");
    }

    /// Whether every bracket is closed; operators have some that are none.
    fn is_balanced(name: &str) -> bool {
        let mut open = Vec::new();
        name.replace("->", "").chars().all(|c| {
            let pair = match c {
                ')' => '(',
                '>' => '<',
                ']' => '[',
                '}' => '{',
                '(' | '<' | '[' | '{' => {
                    open.push(c);
                    return true;
                }
                _ => return true,
            };
            open.pop() == Some(pair)
        }) && open.is_empty()
    }

    #[test]
    fn depth_costs_no_more_than_length() {
        for piece in
            ["a<", "a(", "{", "[", "a<b,", "<a as ", "operator<", "a::", "(a)", "> ", ") const"]
        {
            let name = format!("x::{}", piece.repeat(200_000));
            let short = short_name(&name);
            assert!(!short.is_empty() && short.len() <= name.len() + 8, "{piece}: {}", short.len());
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_short_form(name in "\\PC{0,200}") {
            let short = short_name(&name);
            prop_assert_eq!(short.is_empty(), name.is_empty());
        }

        #[test]
        fn what_looks_like_a_name_becomes_a_balanced_one(
            pieces in prop::collection::vec(
                prop::sample::select(vec![
                    "a", "::", "<", ">", "(", ")", "{", "}", "[", "]", ", ", " ", "const", "&", "*",
                    "std::allocator<", "lambda", "#1", "(anonymous namespace)", "as ", "[abi:cxx11]",
                    "std::__cxx11::basic_string<char, ", "0", "é", " [clone .isra.0]",
                ]),
                0..40,
            ),
        ) {
            let name = pieces.concat();
            let short = short_name(&name);
            prop_assert_eq!(short.is_empty(), name.is_empty());
            if let Cow::Owned(short) = short {
                prop_assert!(is_balanced(&short) || short == name, "{} of {}", short, name);
            }
        }

        #[test]
        fn a_short_name_is_as_short_as_it_gets(pieces in prop::collection::vec(
            prop::sample::select(vec!["a", "::", "b<int>", "f(int)", "<x as y>", "{lambda(int)#1}", " "]), 0..20,
        )) {
            let short = short_name(&pieces.concat()).into_owned();
            prop_assert!(short_name(&short).len() <= short.len());
        }
    }
}
