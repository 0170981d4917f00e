//! Where the arguments stand of a function that only the user knows; and which functions ask the kernel for
//! something that is neither a block nor a mapping.

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
    /// What the function asks the kernel for, and nothing of the above.
    pub asks: Asks,
}

/// What a function asks the kernel for that is neither a block nor a mapping of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Asks {
    /// Nothing of that kind.
    #[default]
    Nothing = 0,
    /// `brk`: an end for its heap, which is the first argument; answers 0.
    Break = 1,
    /// `sbrk`: so many bytes more than there are; answers the end that was.
    MoreBreak = 2,
    /// `madvise`: something to be done to pages. Only what frees them is told.
    Advice = 3,
    /// Nothing: the program tells of a block of an allocator of its own. The hook is called by code of ours,
    /// which leaves where the program is above the return address ([`crate::frame::TOLD_CODE`]).
    Told = 4,
    /// `mprotect`: rights to pages. Nothing of it is told.
    Rights = 5,
}

impl Asks {
    const fn of(value: u8) -> Self {
        match value {
            1 => Self::Break,
            2 => Self::MoreBreak,
            3 => Self::Advice,
            4 => Self::Told,
            5 => Self::Rights,
            _ => Self::Nothing,
        }
    }
}

impl Form {
    /// In one word.
    pub const fn pack(self) -> u64 {
        let arguments = self.block as u64 | (self.size as u64) << 8 | (self.times as u64) << 16;
        arguments | (self.asks as u64) << 24
    }

    /// Out of one word.
    pub const fn unpack(word: u64) -> Self {
        let [block, size, times, asks, ..] = word.to_le_bytes();
        Self { block, size, times, asks: Asks::of(asks) }
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
            let all = [Asks::Nothing, Asks::Break, Asks::MoreBreak, Asks::Advice, Asks::Told];
            for asks in all.into_iter().chain([Asks::Rights]) {
                let form = Form { block, size, times, asks };
                assert_eq!(Form::unpack(form.pack()), form);
            }
        }
    }
}
