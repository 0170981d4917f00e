//! Methods of Java and compiled code, read where they lie in the target: only while they are what the payload saw
//! there, before and after.

use std::{collections::HashMap, sync::Arc};

use heapattach_abi::java::{JavaOrder, identity_of_code, identity_of_method};

use heapattach_process::{addr::RemoteAddr, little_endian::u32_at, memory::Memory};

use super::{
    Java,
    layout::Debug,
    packed::{Packed, line_of, lines},
};

/// Looks at the target's memory in one session: an honest program needs some for each method.
const LOOKS: u32 = 1 << 21;
/// Methods that are kept.
const METHODS: usize = 1 << 16;
/// Bytes of a name, of a table of lines, and of a scope.
const NAME_BYTES: usize = 512;
const LINES_BYTES: u64 = 1 << 16;
const SCOPE_BYTES: usize = 32;
/// Methods that one address is in.
const INLINED: usize = 64;
const NO_INSTRUCTION: u32 = 0;
/// Kinds of compiled code that run a method.
const KINDS: [&[u8]; 2] = [b"nmethod\0", b"native nmethod\0"];
const KIND_BYTES: usize = 15;
/// A row of an address.
const ROW_BYTES: u64 = 16;
const MOST_ROWS: u64 = 1 << 20;

/// What is known of a method.
#[derive(Debug)]
pub(super) struct Method {
    /// Its class, with its package, and its name.
    pub function: Arc<str>,
    /// The file of the class; empty if that is not known.
    pub file: Arc<str>,
    lines: Vec<(u16, u32)>,
    /// Where its instructions begin, and how many bytes they are.
    begin: u64,
    bytes: u64,
}

impl Method {
    /// The line of the instruction with this number.
    pub fn line(&self, instruction: u32) -> Option<u32> {
        let inside = u64::from(instruction) < self.bytes;
        line_of(&self.lines, u16::try_from(instruction).ok().filter(|_| inside)?)
    }

    /// The number of an instruction of whose address the lowest bits are known.
    pub fn instruction(&self, lowest: u32, mask: u64) -> Option<u32> {
        let into = u64::from(lowest).wrapping_sub(self.begin) & mask;
        u32::try_from(into).ok().filter(|_| into < self.bytes)
    }
}

/// What an address in compiled code is in, from the innermost method on, each with its instruction if that is known.
pub(super) type Scopes = Vec<(Arc<Method>, Option<u32>)>;

/// Those that were read.
#[derive(Debug, Default)]
pub(super) struct Methods {
    /// By what they are told apart by.
    known: HashMap<(u64, u64), Arc<Method>>,
    looks: u32,
}

impl Methods {
    /// The method at an address, if it is this one.
    pub fn method(
        &mut self,
        memory: &Memory,
        java: &Java,
        at: u64,
        identity: u64,
    ) -> Option<Arc<Method>> {
        let mut look = Look { memory, java, looks: &mut self.looks };
        if look.identity_of_method(at)? != identity {
            return None;
        }
        if let Some(known) = self.known.get(&(at, identity)) {
            return Some(Arc::clone(known));
        }
        let method = look.method(at)?;
        if look.identity_of_method(at)? != identity || self.known.len() >= METHODS {
            return None;
        }
        let method = Arc::new(method);
        self.known.insert((at, identity), Arc::clone(&method));
        Some(method)
    }

    /// The methods that an address of compiled code is in, if it is this code; none of a stub.
    pub fn scopes(
        &mut self,
        memory: &Memory,
        java: &Java,
        (at, identity): (u64, u64),
        offset: u32,
    ) -> Option<Scopes> {
        let mut look = Look { memory, java, looks: &mut self.looks };
        if look.identity_of_code(at)? != identity {
            return None;
        }
        if !look.runs_method(at)? {
            return Some(Vec::new());
        }
        let places = look.places(at, offset)?;
        if look.identity_of_code(at)? != identity {
            return None;
        }
        let mut scopes = Vec::with_capacity(places.len());
        for (method, instruction) in places {
            let identity =
                Look { memory, java, looks: &mut self.looks }.identity_of_method(method)?;
            scopes.push((self.method(memory, java, method, identity)?, instruction));
        }
        Some(scopes)
    }
}

/// Looks at the target's memory, not more than there may be.
struct Look<'a> {
    memory: &'a Memory,
    java: &'a Java,
    looks: &'a mut u32,
}

impl Look<'_> {
    fn read(&mut self, at: u64, buffer: &mut [u8]) -> Option<()> {
        *self.looks = self.looks.checked_add(1).filter(|&looks| looks <= LOOKS)?;
        self.memory.read(RemoteAddr::new(at), buffer).ok()
    }

    fn word(&mut self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(at, &mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    }

    fn half(&mut self, at: u64) -> Option<u64> {
        let mut bytes = [0; 4];
        self.read(at, &mut bytes)?;
        Some(u64::from(u32::from_le_bytes(bytes)))
    }

    fn quarter(&mut self, at: u64) -> Option<u64> {
        let mut bytes = [0; 2];
        self.read(at, &mut bytes)?;
        Some(u64::from(u16::from_le_bytes(bytes)))
    }

    fn order(&self, order: JavaOrder) -> u64 {
        self.java.java.0[order as usize]
    }

    fn identity_of_method(&mut self, at: u64) -> Option<u64> {
        let fixed = self.word(at.checked_add(self.order(JavaOrder::Fixed))?)?;
        let pool = self.word(fixed.checked_add(self.order(JavaOrder::Pool))?)?;
        let name = self.word(fixed.checked_add(self.order(JavaOrder::Name))?)?;
        Some(identity_of_method(fixed, pool, name))
    }

    fn identity_of_code(&mut self, at: u64) -> Option<u64> {
        let frame = self.half(at.checked_add(self.order(JavaOrder::FrameWords))?)?;
        let compilation = self.half(at.checked_add(self.order(JavaOrder::Compilation))?)?;
        let method = self.word(at.checked_add(self.order(JavaOrder::Method))?)?;
        Some(identity_of_code(frame, compilation, method))
    }

    fn method(&mut self, at: u64) -> Option<Method> {
        let layout = self.java.layout.clone();
        let fixed = self.word(at.checked_add(layout.method_fixed)?)?;
        let pool = self.word(fixed.checked_add(layout.fixed_pool)?)?;
        let class = self.word(pool.checked_add(layout.pool_class)?)?;
        let class = self.word(class.checked_add(layout.class_name)?)?;
        let class = class_name(&self.text(class)?);
        let name = self.quarter(fixed.checked_add(layout.fixed_name)?)?;
        let name = self.constant(pool, name)?;
        let file = match self.quarter(pool.checked_add(layout.pool_file)?)? {
            0 => String::new(),
            number => self.constant(pool, number)?,
        };
        let begin = fixed.checked_add(layout.fixed_bytes)?;
        let bytes = self.quarter(fixed.checked_add(layout.fixed_code)?)?;
        let has_lines = self.quarter(fixed.checked_add(layout.fixed_flags)?)? & 1 != 0;
        let words = self.half(fixed.checked_add(layout.fixed_words)?)?;
        let (from, to) = (begin.checked_add(bytes)?, fixed.checked_add(words * 8)?);
        let length = to.saturating_sub(from).min(LINES_BYTES);
        let mut table = vec![0; if has_lines { usize::try_from(length).ok()? } else { 0 }];
        self.read(from, &mut table)?;
        Some(Method {
            function: format!("{class}.{name}").into(),
            file: file.into(),
            lines: lines(&table, layout.lowest_byte),
            begin,
            bytes,
        })
    }

    /// A text among the constants of a class.
    fn constant(&mut self, pool: u64, number: u64) -> Option<String> {
        let at = pool.checked_add(self.java.layout.pool_bytes)?.checked_add(number * 8)?;
        let text = self.word(at)?;
        self.text(text)
    }

    fn text(&mut self, at: u64) -> Option<String> {
        let (length, bytes) = (self.java.layout.text_length, self.java.layout.text_bytes);
        let length = usize::try_from(self.quarter(at.checked_add(length)?)?).ok()?;
        let mut told = vec![0; length.min(NAME_BYTES)];
        self.read(at.checked_add(bytes)?, &mut told)?;
        if told.iter().any(u8::is_ascii_control) {
            return None;
        }
        let mut text = String::from_utf8_lossy(&told).into_owned();
        if length > NAME_BYTES {
            text.push('\u{2026}');
        }
        Some(text)
    }

    fn runs_method(&mut self, at: u64) -> Option<bool> {
        let kind = self.word(at.checked_add(self.java.layout.code_kind)?)?;
        let mut told = [0; KIND_BYTES];
        self.read(kind, &mut told)?;
        Some(KINDS.iter().any(|kind| told.starts_with(kind)))
    }

    /// The methods that an address is in, with their instructions; of one that nothing is known of, the outermost.
    fn places(&mut self, at: u64, offset: u32) -> Option<Vec<(u64, Option<u32>)>> {
        let own = self.word(at.checked_add(self.java.layout.code_method)?)?;
        let signed = |half: u64| u32::try_from(half).ok().map(|half| i64::from(half.cast_signed()));
        let behind = |look: &mut Self, from: u64, offset: u64| {
            from.checked_add_signed(signed(look.half(at.checked_add(offset)?)?)?)
        };
        let (code, data, rows, rows_end, methods) = match self.java.layout.debug {
            Debug::Inside { code, data, rows, rows_end, methods } => (
                self.word(at.checked_add(code)?)?,
                self.word(at.checked_add(data)?)?,
                behind(self, at, rows)?,
                behind(self, at, rows_end)?,
                behind(self, at, methods)?,
            ),
            Debug::Outside { code, leads, rows, data, changing, methods } => {
                let (leads, changing) =
                    (self.word(at.checked_add(leads)?)?, self.word(at.checked_add(changing)?)?);
                let data = behind(self, leads, data)?;
                let (rows, code) = (behind(self, leads, rows)?, behind(self, at, code)?);
                (code, data, rows, data, behind(self, changing, methods)?)
            }
        };
        let wanted = at.checked_add(u64::from(offset))?.checked_sub(code)?;
        let count = rows_end.checked_sub(rows)? / ROW_BYTES;
        let scope = self.scope_of(rows, count.min(MOST_ROWS), i64::try_from(wanted).ok()?)?;
        let Some(mut scope) = scope else { return Some(vec![(own, None)]) };
        let mut places = Vec::new();
        while scope != 0 && places.len() < INLINED {
            let mut bytes = [0; SCOPE_BYTES];
            self.read(data.checked_add(u64::from(scope))?, &mut bytes)?;
            let mut packed = Packed::of(&bytes, self.java.layout.lowest_byte);
            let (sender, method, instruction) =
                (packed.number()?, packed.number()?, packed.number()?);
            let number = u64::from(method).checked_sub(1)?;
            let method = self.word(methods.checked_add(number * 8)?)?;
            // What comes before the first instruction has the number 0.
            let instruction = (instruction != NO_INSTRUCTION).then(|| instruction.wrapping_sub(1));
            places.push((method, instruction));
            scope = sender;
        }
        // The outermost one is the method that was compiled.
        (places.last().is_some_and(|(method, _)| *method == own)).then_some(places)
    }

    /// Where the scopes of an address are, whose rows are sorted; `None` in there if nothing is known of it.
    fn scope_of(&mut self, rows: u64, count: u64, wanted: i64) -> Option<Option<u32>> {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low.midpoint(high);
            let mut row = [0; 8];
            self.read(rows.checked_add(middle * ROW_BYTES)?, &mut row)?;
            let at = i64::from(u32_at(&row, 0)?.cast_signed());
            if at == wanted {
                let scope = u32_at(&row, 4)?;
                return Some((scope != 0).then_some(scope));
            }
            if at < wanted { low = middle + 1 } else { high = middle }
        }
        Some(None)
    }
}

/// A class as programs name it; what the machine adds to classes that have no name of their own is left out.
fn class_name(internal: &str) -> String {
    let name = internal.split_once("+0x").map_or(internal, |(name, _)| name);
    name.replace('/', ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_named_as_programs_do() {
        assert_eq!(class_name("java/util/HashMap$Node"), "java.util.HashMap$Node");
        assert_eq!(class_name("app/Main$$Lambda$14+0x0000000800c03000"), "app.Main$$Lambda$14");
    }

    #[test]
    fn an_instruction_is_known_by_the_lowest_bits_of_its_address() {
        let method = Method {
            function: "a.B.c".into(),
            file: "B.java".into(),
            lines: vec![(0, 7), (5, 8)],
            begin: 0x7f00_0007_fff8,
            bytes: 20,
        };
        let mask = 0x7_ffff;
        let told = |lowest| method.instruction(lowest, mask).and_then(|at| method.line(at));
        assert_eq!(
            [told(0x7_fff8), told(0x5), told(0x20), told(0)],
            [Some(7), Some(8), None, Some(8)]
        );
    }
}
