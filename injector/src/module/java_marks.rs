//! Symbols by which the virtual machine of Java is known: it exports tables that describe it.

use heapattach_process::addr::RemoteAddr;

/// Their names.
pub const NAMES: [&[u8]; 3] = [b"gHotSpotVMStructs", b"gHotSpotVMTypes", b"gHotSpotVMIntConstants"];

/// What a module has of it: where each table is led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JavaMarks {
    /// Fields, and variables.
    pub fields: Option<RemoteAddr>,
    /// Types and their sizes.
    pub types: Option<RemoteAddr>,
    /// Numbers.
    pub numbers: Option<RemoteAddr>,
}

impl JavaMarks {
    /// Takes a symbol in, if it is one of these.
    pub fn take(&mut self, name: &[u8], at: RemoteAddr) {
        match name {
            b"gHotSpotVMStructs" => self.fields = Some(at),
            b"gHotSpotVMTypes" => self.types = Some(at),
            b"gHotSpotVMIntConstants" => self.numbers = Some(at),
            _ => {}
        }
    }

    /// Whether the module is a virtual machine.
    pub fn is_there(&self) -> bool {
        self.fields.is_some() && self.types.is_some() && self.numbers.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tables_of_the_machine_are_taken() {
        let (mut marks, at) = (JavaMarks::default(), RemoteAddr::new(0x1000));
        marks.take(b"gHotSpotVMLongConstants", at);
        assert_eq!(marks, JavaMarks::default());
        for name in NAMES {
            assert!(!marks.is_there());
            marks.take(name, at);
        }
        assert!(marks.is_there());
    }
}
