//! Trait objects of Rust: an address, then that of a table of functions, which says how large the object is.

use super::forms::View;

/// A larger alignment is none.
const LARGEST: u64 = 4096;
/// The counts before an object in `Rc` and `Arc`.
const COUNTS: u64 = 16;

impl View<'_, '_> {
    /// The block that an object is in, and its table.
    pub fn trait_object(&self, at: u64) -> Option<(u32, u64)> {
        let [object, table] = self.words(at)?;
        if !self.modules.contains(&table) || !self.blocks.span().contains(&object) {
            return None;
        }
        let region = self.moment.region(table)?;
        // Tables lie among constants, which have to be relocated: no longer writable, and not code.
        if region.executable || region.writable || !table.is_multiple_of(8) {
            return None;
        }
        let (number, room) = self.block(object)?;
        let [drop, size, align, method] = self.words(table)?;
        let is_align = align.is_power_of_two() && align <= LARGEST && size.is_multiple_of(align);
        let is_table =
            is_align && size > 0 && (drop == 0 || self.is_code(drop)) && self.is_code(method);
        if !is_table {
            return None;
        }
        let is_boxed = self.is_room_of(size, room);
        let is_counted = || {
            let before = COUNTS.max(align);
            let counts = self.words::<2>(object);
            let are_counts = counts.is_some_and(|[strong, weak]| {
                (1..1 << 32).contains(&strong) && (1..1 << 32).contains(&weak)
            });
            are_counts && before.checked_add(size).is_some_and(|size| self.is_room_of(size, room))
        };
        (is_boxed || is_counted()).then_some((number, table))
    }

    fn is_code(&self, at: u64) -> bool {
        self.moment.region(at).is_some_and(|region| region.executable)
    }
}
