//! Functions that the user names: of pools and allocators that are not known here.

use heapattach_abi::{
    form::{Form, LAST_ARGUMENT},
    kind::HookKind,
};

use crate::{
    Family,
    functions::{self, Function, FunctionRef},
};
use heapattach_process::addr::ImageAddr;

/// The functions asked for; they live as long as the command.
#[derive(Clone, Copy, Debug)]
pub struct UserHooks {
    functions: &'static [Function],
    demangle: fn(&[u8]) -> String,
}

impl Default for UserHooks {
    fn default() -> Self {
        Self { functions: &[], demangle: |name| String::from_utf8_lossy(name).into_owned() }
    }
}

/// What was meant by `--hook`, and why it cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not FUNCTION=FORM; FORM is malloc, calloc, realloc, memalign, free, \
     alloc:size=argN, alloc:size=argN*argM, realloc:ptr=argN,size=argM or free:ptr=argN, N from 1 \
     to 6"
)]
pub struct FormError {
    text: String,
}

/// Reads `FUNCTION=FORM`.
///
/// # Errors
/// What the forms are.
pub fn parse(text: &str) -> Result<Function, FormError> {
    let error = || FormError { text: text.to_owned() };
    // A name may have an operator in it, a form has no name.
    let forms = ["malloc", "calloc", "realloc", "memalign", "free", "alloc:", "realloc:", "free:"];
    let starts = forms.iter().filter_map(|form| text.rfind(&format!("={form}")));
    let (name, form) = text.split_at(starts.max().ok_or_else(error)?);
    let (kind, form) = kind_of(&form[1..]).ok_or_else(error)?;
    if name.is_empty() || (name.starts_with("0x") && place_of(name).is_none()) {
        return Err(error());
    }
    Ok(Function {
        name: name.to_owned(),
        family: Family::Heap,
        kind,
        form,
        nothrow: None,
        frees: matches!(kind, HookKind::Free | HookKind::Realloc) || form.block != 0,
        allocator: "--hook",
        is_asked: true,
        is_operator: false,
        is_extra: false,
    })
}

fn kind_of(form: &str) -> Option<(HookKind, Form)> {
    let plain = |kind| Some((kind, Form::default()));
    let argument = |text: &str| {
        let number = text.strip_prefix("arg")?.parse().ok()?;
        (1..=LAST_ARGUMENT).contains(&number).then_some(number)
    };
    match form {
        "malloc" => return plain(HookKind::Malloc),
        "calloc" => return plain(HookKind::Calloc),
        "realloc" => return plain(HookKind::Realloc),
        "memalign" => return plain(HookKind::Memalign),
        "free" => return plain(HookKind::Free),
        _ => {}
    }
    let (what, arguments) = form.split_once(':')?;
    let mut form = Form::default();
    for argument_of in arguments.split(',') {
        match argument_of.split_once('=')? {
            ("ptr", at) => form.block = argument(at)?,
            ("size", product) => {
                let (size, times) = product.split_once('*').unwrap_or((product, ""));
                form.size = argument(size)?;
                form.times = if times.is_empty() { 0 } else { argument(times)? };
            }
            _ => return None,
        }
    }
    // Those that have a hook of their own are dealt with faster.
    match (what, form) {
        ("alloc", Form { block: 0, size: 1, times: 0, .. }) => plain(HookKind::Malloc),
        ("alloc", Form { block: 0, size: 2, times: 0, .. }) => plain(HookKind::Memalign),
        ("free", Form { block: 1, size: 0, .. }) => plain(HookKind::Free),
        ("alloc", Form { block: 0, size: 1.., .. })
        | ("free", Form { block: 1.., size: 0, .. })
        | ("realloc", Form { block: 1.., size: 1.., .. }) => Some((HookKind::Chosen, form)),
        _ => None,
    }
}

/// `0xADDRESS` or `0xADDRESS+0xSIZE`, as the executable's file states addresses.
fn place_of(name: &str) -> Option<(ImageAddr, u64)> {
    let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let (at, size) = name.split_once('+').unwrap_or((name, "0x0"));
    Some((ImageAddr::new(number(at)?), number(size)?))
}

impl UserHooks {
    /// Takes the functions; `demangle` gives a name as it stood in the source.
    pub fn new(functions: Vec<Function>, demangle: fn(&[u8]) -> String) -> Self {
        Self { functions: Vec::leak(functions), demangle }
    }

    /// All of them.
    pub fn functions(self) -> &'static [Function] {
        self.functions
    }

    /// Those that are named by their address, with it and their size if that is given.
    pub fn places(self) -> impl Iterator<Item = (FunctionRef, ImageAddr, u64)> {
        self.functions.iter().filter_map(|function| {
            let (at, size) = place_of(&function.name)?;
            Some((function, at, size))
        })
    }

    /// The function that a symbol names: one asked for, else one that every program has.
    pub fn find(self, symbol: &[u8]) -> Option<FunctionRef> {
        self.functions
            .iter()
            .find(|function| self.is_called(symbol, &function.name))
            .or_else(|| functions::by_name(symbol))
    }

    fn is_called(self, symbol: &[u8], name: &str) -> bool {
        if symbol == name.as_bytes() {
            return true;
        }
        // To demangle all names of a large program takes long.
        let path = name.split('(').next().unwrap_or(name);
        let last = path.rsplit("::").next().unwrap_or(path).as_bytes();
        let is_mangled = symbol.starts_with(b"_Z") || symbol.starts_with(b"_R");
        if !is_mangled || last.is_empty() || !symbol.windows(last.len()).any(|part| part == last) {
            return false;
        }
        let source = (self.demangle)(symbol);
        source == name || source.split('(').next() == Some(name)
    }

    /// Names that look like `name`, the likest first.
    pub fn near<'n>(self, name: &str, symbols: impl Iterator<Item = &'n [u8]>) -> Vec<String> {
        const MOST: usize = 3;
        let mut found: Vec<(usize, String)> = Vec::new();
        for symbol in symbols {
            let source = (self.demangle)(symbol);
            let plain = source.split('(').next().unwrap_or(&source);
            let distance = distance(name.as_bytes(), plain.as_bytes());
            let is_worse = found.len() == MOST && found[MOST - 1].0 <= distance;
            if distance > name.len() / 3 || is_worse || found.iter().any(|(_, n)| n == plain) {
                continue;
            }
            found.push((distance, plain.to_owned()));
            found.sort();
            found.truncate(MOST);
        }
        found.into_iter().map(|(_, name)| name).collect()
    }
}

/// How many letters differ (Levenshtein); of names of very different length, their length.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let apart = a.len().abs_diff(b.len());
    if apart > a.len() / 3 {
        return a.len().max(b.len());
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut before = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let swapped = before + usize::from(x != y);
            before = row[j + 1];
            row[j + 1] = swapped.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read_and_the_usual_ones_are_the_fast_ones() {
        let kind = |text: &str| parse(text).map(|f| (f.kind, f.form, f.frees)).unwrap();
        let none = Form::default();
        assert_eq!(kind("pool_get=malloc"), (HookKind::Malloc, none, false));
        assert_eq!(kind("pool_get=alloc:size=arg1"), (HookKind::Malloc, none, false));
        assert_eq!(kind("pool_get=alloc:size=arg2"), (HookKind::Memalign, none, false));
        assert_eq!(kind("pool_put=free:ptr=arg1"), (HookKind::Free, none, true));
        let chosen = |block, size, times| {
            let form = Form { block, size, times, ..Form::default() };
            (HookKind::Chosen, form, block != 0)
        };
        assert_eq!(kind("f=alloc:size=arg2*arg3"), chosen(0, 2, 3));
        assert_eq!(kind("f=free:ptr=arg2"), chosen(2, 0, 0));
        assert_eq!(kind("A::operator==(A)=realloc:ptr=arg2,size=arg3"), chosen(2, 3, 0));
        assert_eq!(parse("0x401234+0x20=malloc").unwrap().name, "0x401234+0x20");
    }

    #[test]
    fn what_is_no_form_is_refused() {
        for text in [
            "",
            "f",
            "=malloc",
            "f=",
            "f=mallox",
            "f=alloc",
            "f=alloc:size=arg0",
            "f=free:ptr=arg7",
            "f=alloc:ptr=arg1",
            "f=free:size=arg1",
            "0xzz=malloc",
            "f=realloc:ptr=arg1",
            "f=free:ptr",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{text}` is not FUNCTION=FORM")), "{error}");
        }
    }

    #[test]
    fn a_name_is_the_symbol_or_what_it_was_made_from() {
        fn demangle(name: &[u8]) -> String {
            if name == b"_ZN4Pool3getEm" { "Pool::get(unsigned long)" } else { "other()" }
                .to_owned()
        }
        let asked =
            |name: &str| UserHooks::new(vec![parse(&format!("{name}=malloc")).unwrap()], demangle);
        let finds = |name, symbol: &[u8]| asked(name).find(symbol).is_some();
        assert!(finds("Pool::get", b"_ZN4Pool3getEm"));
        assert!(finds("Pool::get(unsigned long)", b"_ZN4Pool3getEm"));
        assert!(finds("_ZN4Pool3getEm", b"_ZN4Pool3getEm"));
        assert!(!finds("Pool::get(int)", b"_ZN4Pool3getEm"));
        assert!(!finds("Pool::put", b"_ZN4Pool3getEm"));
        assert!(finds("Pool::put", b"malloc"), "what everybody knows is found too");
    }

    #[test]
    fn names_that_look_alike_are_told() {
        let names = ["pool_alloc", "pool_free", "main", "pool_calloc", "pool_alloc"];
        let near = UserHooks::default().near("pool_aloc", names.iter().map(|name| name.as_bytes()));
        assert_eq!(near, ["pool_alloc", "pool_calloc"]);
        assert_eq!(distance(b"kitten", b"sitting"), 3);
    }
}
