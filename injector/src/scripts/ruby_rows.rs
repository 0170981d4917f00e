//! Where Ruby's virtual machine has what, by version.
//!
//! What is the same in all of them is in `ruby`. Rows with the same size of a frame and the same place of the number
//! of rows are read in the same way but for the bytes of a row.

/// Where the parts differ between versions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    /// How its text begins.
    pub version: &'static str,
    /// What leads to the state of a thread.
    pub state: State,
    /// In that state: its innermost frame, behind the stack and the length of that.
    pub current: u64,
    /// Bytes of a frame, and where in it flags are led to.
    pub frame: u64,
    pub flags_at: u64,
    /// In code: what is known of it; there: its file, name, first line, and where it ends.
    pub body: u64,
    pub file: u64,
    pub name: u64,
    pub first_line: u64,
    pub extent: u64,
    /// There, too: the table of lines, how many rows that has, and what leads to them.
    pub lines: u64,
    pub rows: u64,
    pub index: u64,
    /// Bytes of a row.
    pub row: u64,
    /// Whether the first line is a number as Ruby's objects have it.
    pub is_tagged: bool,
    /// Whether texts say their length beside their head, also where the bytes follow.
    pub has_length: bool,
}

/// What leads to the state of a thread.
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// A variable of the thread.
    OfThread,
    /// A variable of the process, for the one thread that runs scripts just then: in the state, its thread; there,
    /// the thread pointer.
    OfProcess { thread: u64, pointer: u64 },
}

/// What is the same in many.
const OF_2_7: Row = Row {
    version: "2.7.",
    state: State::OfProcess { thread: 56, pointer: 72 },
    current: 16,
    frame: 56,
    flags_at: 32,
    body: 16,
    file: 64,
    name: 80,
    first_line: 88,
    extent: 104,
    lines: 120,
    rows: 136,
    index: 144,
    row: 8,
    is_tagged: true,
    has_length: false,
};
const OF_3_3: Row = Row {
    version: "3.3.",
    state: State::OfThread,
    lines: 112,
    rows: 128,
    index: 136,
    row: 12,
    is_tagged: false,
    has_length: true,
    ..OF_2_7
};

/// What is known.
pub(super) const ROWS: [Row; 6] = [
    OF_2_7,
    Row { version: "3.0.", state: State::OfThread, ..OF_2_7 },
    Row { version: "3.1.", state: State::OfThread, frame: 64, row: 12, ..OF_2_7 },
    Row { version: "3.2.", frame: 64, ..OF_3_3 },
    OF_3_3,
    Row { version: "3.4.", ..OF_3_3 },
];
