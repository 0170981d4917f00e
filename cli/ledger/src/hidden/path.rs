//! The path of a function, out of its whole demangled name.
//!
//! `void std::vector<int, std::allocator<int> >::emplace_back<int>(int&&)` is
//! `std::vector::emplace_back`: rules about types and return values would not be readable.

/// The name without what it returns, its arguments and the types it is made for.
pub fn path(name: &str) -> String {
    let name = without_clone(name);
    // What the C library calls its functions when it calls them itself.
    let name = name.strip_prefix("__GI_").unwrap_or(name);
    let path = rust_impl(name).unwrap_or_else(|| plain(name));
    path.trim_end_matches("::").replace("::::", "::")
}

/// Whether the name says what the function is called with, as those of C++ do.
pub fn has_arguments(name: &str) -> bool {
    let name = without_clone(name);
    name.ends_with(')') || name.contains(") const") || name.contains(")::")
}

/// Compilers mark copies: `f.part.0`, `f(int) [clone .isra.0]`.
fn without_clone(name: &str) -> &str {
    let marks = [" [clone", ".part.", ".isra.", ".constprop.", ".cold", ".lto_priv.", ".llvm."];
    let end = marks.iter().filter_map(|mark| name.find(mark)).min();
    &name[..end.unwrap_or(name.len())]
}

/// `<type as trait>::method` and `<type>::method` of Rust.
fn rust_impl(name: &str) -> Option<String> {
    let inner = name.strip_prefix('<')?;
    let end = name.len() - after(inner, '<', '>')?.len();
    let (inner, rest) = (&name[1..end - 1], plain(&name[end..]));
    let inner = inner.trim_start_matches("dyn ");
    Some(match find_outside(inner, " as ") {
        Some(at) => format!("<{} as {}>{rest}", rust_type(&inner[..at]), plain(&inner[at + 4..])),
        None => format!("{}{rest}", rust_type(inner)),
    })
}

/// A type may be a slice, a tuple or a reference: only its own arguments go.
fn rust_type(name: &str) -> String {
    match name.find('<') {
        Some(0) => rust_impl(name).unwrap_or_else(|| name.to_owned()),
        Some(_) => plain(name),
        None => name.to_owned(),
    }
}

/// Where `what` stands in `text` outside of any brackets.
fn find_outside(text: &str, what: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' => depth += 1,
            b'>' | b')' | b']' => depth = depth.saturating_sub(1),
            b' ' if depth == 0 && text[at..].starts_with(what) => return Some(at),
            _ => {}
        }
    }
    None
}

fn plain(name: &str) -> String {
    let mut path = String::new();
    let mut rest = name;
    while let Some(next) = rest.chars().next() {
        if rest.starts_with("operator") && !path.ends_with(is_letter) && !is_word(rest) {
            return path + operator(rest);
        }
        if let Some(after) = rest.strip_prefix("(anonymous namespace)") {
            path.push_str("(anonymous namespace)");
            rest = after;
            continue;
        }
        let skipped = match next {
            '<' => after(&rest[1..], '<', '>'),
            '{' => after(&rest[1..], '{', '}'),
            '(' => match after(&rest[1..], '(', ')') {
                // What follows is local to this function, or what was before is `decltype`.
                Some(after) => {
                    let local = after.strip_prefix(" const").unwrap_or(after);
                    if local.starts_with("::") { Some(local) } else { function(&mut path, after) }
                }
                None => None,
            },
            // What was before is the type it returns.
            ' ' => {
                path.clear();
                Some(&rest[1..])
            }
            _ => {
                path.push(next);
                Some(&rest[next.len_utf8()..])
            }
        };
        let Some(after) = skipped else { break };
        if next == '{' {
            path.push_str(&rest[..rest.len() - after.len()]);
        }
        rest = after;
    }
    path
}

/// After brackets that are not a scope's: the end, unless they belong to a type.
fn function<'a>(path: &mut String, after: &'a str) -> Option<&'a str> {
    let is_type = path.is_empty() || path == "decltype" || path == "decltype ";
    is_type.then(|| {
        path.clear();
        after.trim_start()
    })
}

/// `operator new[]`, `operator()`, `operator<<`.
fn operator(text: &str) -> &str {
    let sign = text.strip_prefix("operator").unwrap_or_default();
    if sign.starts_with("()") {
        return "operator()";
    }
    let end = text.find('(').unwrap_or(text.len());
    text[..end].trim_end()
}

fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// `operators` is a name like any other.
fn is_word(text: &str) -> bool {
    text.strip_prefix("operator").is_some_and(|rest| rest.starts_with(is_letter))
}

/// What follows the bracket that closes an opened one.
fn after(text: &str, open: char, close: char) -> Option<&str> {
    let mut depth = 1_usize;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        // The arrow of a function's type is not a bracket.
        if c == close && !(close == '>' && before == '-') {
            depth -= 1;
            if depth == 0 {
                return Some(&text[at + close.len_utf8()..]);
            }
        } else if c == open {
            depth += 1;
        }
        before = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_arguments_and_return_values_go() {
        let table = [
            ("malloc", "malloc"),
            ("xmalloc.part.0", "xmalloc"),
            ("__GI___strdup", "__strdup"),
            ("operator new(unsigned long)", "operator new"),
            ("operator new[](unsigned long, std::nothrow_t const&)", "operator new[]"),
            (
                "void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>(int*, int&&)",
                "std::vector::_M_realloc_insert",
            ),
            ("std::vector<int>::operator=(std::vector<int> const&)", "std::vector::operator="),
            (
                "(anonymous namespace)::Pool::grow(int) [clone .cold]",
                "(anonymous namespace)::Pool::grow",
            ),
            (
                "a::run()::{lambda(int)#1}::operator()(int) const",
                "a::run::{lambda(int)#1}::operator()",
            ),
            (
                "a::B::get() const::{lambda()#2}::operator()() const",
                "a::B::get::{lambda()#2}::operator()",
            ),
            ("decltype (f(0)) ns::apply<int>(int)", "ns::apply"),
            ("std::shared_ptr<A> std::make_shared<A, int>(int&&)", "std::make_shared"),
            ("zoo::operators(int)", "zoo::operators"),
            ("alloc::raw_vec::RawVec<T,A>::grow_one", "alloc::raw_vec::RawVec::grow_one"),
            ("<alloc::raw_vec::RawVec<u8>>::grow_one", "alloc::raw_vec::RawVec::grow_one"),
            ("alloc::slice::<impl [T]>::to_vec", "alloc::slice::to_vec"),
            ("<[u8]>::to_vec", "[u8]::to_vec"),
            (
                "<alloc::vec::Vec<my::T> as core::clone::Clone>::clone",
                "<alloc::vec::Vec as core::clone::Clone>::clone",
            ),
            ("<my::It<fn() -> u8> as a::Tr<u8>>::next", "<my::It as a::Tr>::next"),
            ("app::main::{closure#0}", "app::main::{closure#0}"),
            ("app::run::<u8>", "app::run"),
            ("<<a::B as c::D>::E as f::G>::h", "<<a::B as c::D>::E as f::G>::h"),
        ];
        for (name, expected) in table {
            assert_eq!(path(name), expected, "{name}");
        }
    }

    #[test]
    fn names_of_rust_have_no_arguments() {
        assert!(has_arguments("core::f(int)") && has_arguments("core::A::f(int) const"));
        assert!(has_arguments("core::f()::{lambda()#1}::operator()<int>(int) const [clone .cold]"));
        assert!(!has_arguments("core::f") && !has_arguments("<fn(u8) as core::F>::f"));
    }

    proptest::proptest! {
        #[test]
        fn any_name_has_a_path(name: String, signs in "[<>(){}: a*op\\[\\]-]{0,40}") {
            path(&name);
            path(&signs);
            path(&format!("<operator{signs}"));
        }
    }
}
