//! What a user does: keys and the mouse, whatever library heard of them.

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A letter, a digit or a sign.
    Sign(char),
    /// One step up.
    Up,
    /// One step down.
    Down,
    /// To the left.
    Left,
    /// To the right.
    Right,
    /// A screen up.
    PageUp,
    /// A screen down.
    PageDown,
    /// To the first row.
    Home,
    /// To the last row.
    End,
    /// Opens, or confirms.
    Enter,
    /// Closes.
    Escape,
    /// Takes back the last letter.
    Backspace,
    /// The next process.
    NextProcess,
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-Z.
    Suspend,
}

/// What a user does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Types a key.
    Key(Key),
    /// Clicks a cell.
    Click {
        /// Its column.
        column: u16,
        /// Its line.
        line: u16,
    },
    /// Turns the wheel: down, or up.
    Wheel {
        /// Whether it is down.
        is_down: bool,
    },
}
