//! Symbols by which V8 tells debuggers how its objects lie: `v8dbg_*`, which Node.js exports.

use heapattach_process::{addr::RemoteAddr, memory::Memory};

/// A number that they say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs, reason = "as the symbols")]
pub enum Constant {
    Major,
    Minor,
    Build,
    Patch,
    PointerSize,
    TaggedSize,
    SmiShift,
    ObjectTag,
    FormMask,
    Joined,
    External,
    Sliced,
    Thin,
    NarrowMask,
    NoText,
    TextLength,
    TextParent,
    TextOffset,
    TextResource,
    Letters,
    MapKind,
    Context,
    Function,
    Bytecode,
    BytecodeOffset,
    FunctionShared,
    SharedScope,
    SharedScript,
    SharedFlags,
    BytecodeData,
    ScriptSource,
    ScriptName,
    ScriptLineEnds,
    ScriptEvalFrom,
    TableLength,
    FirstVariable,
    SharedKind,
    ScriptKind,
    BytecodeKind,
    ScopeKind,
    TableKind,
    TrustedTableKind,
}

/// How many there are.
pub const CONSTANTS: usize = Constant::TrustedTableKind as usize + 1;

/// Their names; where releases differ in a name, each has its own.
pub const NAMES: [&[u8]; 45] = [
    b"_ZN2v88internal7Version6major_E",
    b"_ZN2v88internal7Version6minor_E",
    b"_ZN2v88internal7Version6build_E",
    b"_ZN2v88internal7Version6patch_E",
    b"v8dbg_SystemPointerSize",
    b"v8dbg_TaggedSize",
    b"v8dbg_SmiShiftSize",
    b"v8dbg_HeapObjectTag",
    b"v8dbg_StringRepresentationMask",
    b"v8dbg_ConsStringTag",
    b"v8dbg_ExternalStringTag",
    b"v8dbg_SlicedStringTag",
    b"v8dbg_ThinStringTag",
    b"v8dbg_StringEncodingMask",
    b"v8dbg_FirstNonstringType",
    b"v8dbg_class_String__length__int32_t",
    b"v8dbg_class_SlicedString__parent__String",
    b"v8dbg_class_SlicedString__offset__SMI",
    b"v8dbg_class_ExternalString__resource__Object",
    b"v8dbg_class_SeqOneByteString__chars__char",
    b"v8dbg_class_Map__instance_type__uint16_t",
    b"v8dbg_off_fp_context",
    b"v8dbg_off_fp_function",
    b"v8dbg_off_fp_bytecode_array",
    b"v8dbg_off_fp_bytecode_offset",
    b"v8dbg_class_JSFunction__shared__SharedFunctionInfo",
    b"v8dbg_class_SharedFunctionInfo__name_or_scope_info__Object",
    b"v8dbg_class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_",
    b"v8dbg_class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_",
    b"v8dbg_class_SharedFunctionInfo__script_or_debug_info__HeapObject",
    b"v8dbg_class_SharedFunctionInfo__script__Tagged_HeapObject_",
    b"v8dbg_class_SharedFunctionInfo__flags__int",
    b"v8dbg_class_BytecodeArray__data__uintptr_t",
    b"v8dbg_class_Script__source__Object",
    b"v8dbg_class_Script__name__Object",
    b"v8dbg_class_Script__line_ends__Object",
    b"v8dbg_class_Script__eval_from_position__SMI",
    b"v8dbg_class_FixedArrayBase__length__SMI",
    b"v8dbg_scopeinfo_idx_first_vars",
    b"v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE",
    b"v8dbg_type_Script__SCRIPT_TYPE",
    b"v8dbg_type_BytecodeArray__BYTECODE_ARRAY_TYPE",
    b"v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE",
    b"v8dbg_type_ByteArray__BYTE_ARRAY_TYPE",
    b"v8dbg_type_TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE",
];

/// What a module has of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct V8Marks {
    places: [Option<RemoteAddr>; CONSTANTS],
    /// Whether it exports any.
    pub is_there: bool,
}

impl Default for V8Marks {
    fn default() -> Self {
        Self { places: [None; CONSTANTS], is_there: false }
    }
}

impl V8Marks {
    /// Takes a symbol in, if it is one of these.
    pub fn take(&mut self, name: &[u8], at: RemoteAddr) {
        let Some(number) = NAMES.iter().position(|known| *known == name) else { return };
        self.is_there |= name.starts_with(b"v8dbg_");
        // Names of the same number are one behind the other.
        let number = match number {
            0..27 => number,
            27 | 28 => Constant::SharedScope as usize,
            29 | 30 => Constant::SharedScript as usize,
            _ => number - 3,
        };
        if let Some(place) = self.places.get_mut(number) {
            *place = Some(at);
        }
    }

    /// What a symbol says, if it is there.
    pub fn number(&self, memory: &Memory, which: Constant) -> Option<i32> {
        let bytes = memory.read_vec(self.places[which as usize]?, 4).ok()?;
        Some(i32::from_le_bytes(bytes.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_its_number() {
        let mut marks = V8Marks::default();
        let at = |number: usize| RemoteAddr::new(0x1000 + 8 * number as u64);
        for (number, name) in NAMES.iter().enumerate() {
            marks.take(name, at(number));
        }
        let place = |which: Constant| marks.places[which as usize];
        for (which, name) in [
            (Constant::FunctionShared, "v8dbg_class_JSFunction__shared__SharedFunctionInfo"),
            (Constant::SharedFlags, "v8dbg_class_SharedFunctionInfo__flags__int"),
            (Constant::SharedKind, "v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE"),
            (Constant::ScopeKind, "v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE"),
            (Constant::TrustedTableKind, "v8dbg_type_TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE"),
        ] {
            let number = NAMES.iter().position(|known| *known == name.as_bytes()).unwrap();
            assert_eq!(place(which), Some(at(number)), "{name}");
        }
        assert!(marks.places.iter().all(Option::is_some));
    }
}
