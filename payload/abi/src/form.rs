//! Where the arguments stand of a function that only the user knows.

/// The last argument that comes in a register.
pub const LAST_ARGUMENT: u8 = 6;

/// Which argument is what; counted from 1, and 0 for none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Form {
    /// The block that is freed, or exchanged.
    pub block: u8,
    /// How many bytes are asked for.
    pub size: u8,
    /// How many times so many.
    pub times: u8,
}

impl Form {
    /// In one word.
    pub const fn pack(self) -> u64 {
        self.block as u64 | (self.size as u64) << 8 | (self.times as u64) << 16
    }

    /// Out of one word.
    pub const fn unpack(word: u64) -> Self {
        let [block, size, times, ..] = word.to_le_bytes();
        Self { block, size, times }
    }

    /// Whether the function allocates a block.
    pub const fn hands_out(self) -> bool {
        self.size != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_survives_being_packed() {
        for (block, size, times) in [(0, 1, 0), (6, 0, 0), (2, 3, 4), (0, 0, 0)] {
            let form = Form { block, size, times };
            assert_eq!(Form::unpack(form.pack()), form);
        }
    }
}
