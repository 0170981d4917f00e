//! Symbols by which Lua's library is known: it exports them for programs and for extensions.

use std::ops::Range;

use heapattach_process::addr::RemoteAddr;

/// Their names.
pub const NAMES: [&[u8]; 8] = [
    b"lua_ident",
    b"lua_call",
    b"lua_callk",
    b"lua_getallocf",
    b"lua_getstack",
    b"lua_checkstack",
    b"lua_getinfo",
    b"luaJIT_setmode",
];

/// What a module has of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LuaMarks {
    /// The text that tells its version.
    pub version: Option<RemoteAddr>,
    /// A function that calls one of a script.
    pub calls: Range<RemoteAddr>,
    /// A function that reads where all threads have in common what they have.
    pub reads_state: Range<RemoteAddr>,
    /// A function that goes from call to call.
    pub reads_calls: Range<RemoteAddr>,
    /// A function that reads where the values of a thread lie.
    pub reads_values: Range<RemoteAddr>,
    /// A function that tells what is known of one of a script.
    pub tells_functions: Range<RemoteAddr>,
    /// A function that LuaJIT alone has.
    pub sets_mode: Range<RemoteAddr>,
}

impl LuaMarks {
    /// Takes a symbol in, if it is one of these.
    pub fn take(&mut self, name: &[u8], at: RemoteAddr, size: u64) {
        let range = at..at.checked_add(size).unwrap_or(at);
        match name {
            b"lua_ident" => self.version = Some(at),
            b"lua_call" | b"lua_callk" => self.calls = range,
            b"lua_getallocf" => self.reads_state = range,
            b"lua_getstack" => self.reads_calls = range,
            b"lua_checkstack" => self.reads_values = range,
            b"lua_getinfo" => self.tells_functions = range,
            b"luaJIT_setmode" => self.sets_mode = range,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_symbols_of_the_library_are_taken() {
        let (mut marks, at) = (LuaMarks::default(), RemoteAddr::new(0x1000));
        marks.take(b"lua_newtable", at, 8);
        assert_eq!(marks, LuaMarks::default());
        for name in NAMES {
            marks.take(name, at, 0x10);
        }
        let all = [
            &marks.calls,
            &marks.reads_state,
            &marks.reads_calls,
            &marks.reads_values,
            &marks.tells_functions,
            &marks.sets_mode,
        ];
        assert!(all.iter().all(|range| **range == (at..RemoteAddr::new(0x1010))));
        assert_eq!(marks.version, Some(at));
        marks.take(b"lua_callk", at, u64::MAX);
        assert!(marks.calls.is_empty());
    }
}
