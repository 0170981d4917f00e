//! Where Java's virtual machine has what is to be known of a method and of compiled code, by its own description.

use super::tables::Tables;

/// Offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    /// In a method: what does not change of it.
    pub method_fixed: u64,
    /// In that: the pool of constants of its class.
    pub fixed_pool: u64,
    /// In it: how many words it has.
    pub fixed_words: u64,
    /// In it: bits, of which one says that there are lines.
    pub fixed_flags: u64,
    /// In it: bytes of its instructions.
    pub fixed_code: u64,
    /// In it: the number of its name.
    pub fixed_name: u64,
    /// Bytes of it before the instructions.
    pub fixed_bytes: u64,
    /// In a pool: its class.
    pub pool_class: u64,
    /// In a pool: the number of the name of the file.
    pub pool_file: u64,
    /// Bytes of it before the constants.
    pub pool_bytes: u64,
    /// In a class: its name.
    pub class_name: u64,
    /// In a text: its length, and its bytes.
    pub text_length: u64,
    /// The second of these.
    pub text_bytes: u64,
    /// In compiled code: what it is called, which tells its kind.
    pub code_kind: u64,
    /// In it: how many words its frame has.
    pub code_frame: u64,
    /// In it: the number of its compilation.
    pub code_compilation: u64,
    /// In it: its method.
    pub code_method: u64,
    /// How what is known of its addresses is led to.
    pub debug: Debug,
    /// The lowest byte of a packed number: releases from 20 on leave 0 out.
    pub lowest_byte: u8,
}

/// In compiled code, where instructions begin, and what is known of its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Debug {
    /// Behind the code (to 22): where instructions are led to, and the data of scopes; how far behind the beginning
    /// rows of addresses begin and end, and methods.
    Inside { code: u64, data: u64, rows: u64, rows_end: u64, methods: u64 },
    /// By itself (25): how far behind the beginning the instructions are; what leads to the data, and in it where rows
    /// of addresses and scopes begin; what leads to what changes, and how far in there methods are.
    Outside { code: u64, leads: u64, rows: u64, data: u64, changing: u64, methods: u64 },
}

impl Default for Debug {
    fn default() -> Self {
        Self::Inside { code: 0, data: 0, rows: 0, rows_end: 0, methods: 0 }
    }
}

/// The bit that says that there are lines, under both of its names.
const HAS_LINES: [&str; 2] =
    ["ConstMethod::_has_linenumber_table", "ConstMethodFlags::_misc_has_linenumber_table"];
/// A row of an address: how far into the instructions, and where its scopes are.
const ROW: [(&str, u64); 2] = [("_pc_offset", 0), ("_scope_decode_offset", 4)];

impl Layout {
    /// Of a release, if all that is needed is described.
    pub fn of(tables: &Tables, release: u64) -> Option<Self> {
        let at = |of, name| tables.offset(of, name);
        let of_code = |name| {
            at("nmethod", name)
                .or_else(|| at("CompiledMethod", name))
                .or_else(|| at("CodeBlob", name))
        };
        let has_lines = HAS_LINES.iter().find_map(|name| tables.number(name));
        let is_known = has_lines == Some(1)
            && ROW.iter().all(|(name, offset)| at("PcDesc", name) == Some(*offset));
        let debug = match at("nmethod", "_immutable_data") {
            None => Debug::Inside {
                code: of_code("_code_begin")?,
                data: of_code("_scopes_data_begin")?,
                rows: of_code("_scopes_pcs_offset")?,
                rows_end: of_code("_dependencies_offset")?,
                methods: of_code("_metadata_offset")?,
            },
            Some(leads) => Debug::Outside {
                code: of_code("_code_offset")?,
                leads,
                rows: of_code("_scopes_pcs_offset")?,
                data: of_code("_scopes_data_offset")?,
                changing: of_code("_mutable_data")?,
                methods: of_code("_relocation_size")?,
            },
        };
        let layout = Self {
            method_fixed: at("Method", "_constMethod")?,
            fixed_pool: at("ConstMethod", "_constants")?,
            fixed_words: at("ConstMethod", "_constMethod_size")?,
            fixed_flags: at("ConstMethod", "_flags")
                .or_else(|| at("ConstMethod", "_flags._flags"))?,
            fixed_code: at("ConstMethod", "_code_size")?,
            fixed_name: at("ConstMethod", "_name_index")?,
            fixed_bytes: tables.size("ConstMethod")?,
            pool_class: at("ConstantPool", "_pool_holder")?,
            pool_file: at("ConstantPool", "_source_file_name_index")?,
            pool_bytes: tables.size("ConstantPool")?,
            class_name: at("Klass", "_name")?,
            text_length: at("Symbol", "_length")?,
            text_bytes: at("Symbol", "_body")?,
            code_kind: of_code("_name")?,
            code_frame: of_code("_frame_size")?,
            code_compilation: of_code("_compile_id")?,
            code_method: of_code("_method")?,
            debug,
            lowest_byte: u8::from(release >= 20),
        };
        is_known.then_some(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_description_is_none() {
        assert_eq!(Layout::of(&Tables::default(), 17), None);
    }
}
