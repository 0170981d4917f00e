//! What Rust's compiler says otherwise than by pointers to types: the elements of a `Vec`, which it has as bytes, and values
//! that may be missing.

use gimli::{AttributeValue, Unit, constants as dw};

use crate::entries::{Bytes, Entry, Place, number};

use super::{Kind, Vector, read::Reading};

/// What a `Vec` is called, with its namespaces.
const VEC: &str = "alloc::vec::Vec<";
/// The members that lead to the address of its elements; what a late compiler has within `inner` an older one has directly.
const BUFFER: [&[&str]; 2] = [&["buf", "inner"], &["buf"]];

impl<'s> Reading<'_, 's> {
    /// A `Vec`, or a structure whose parts depend on one of its words, if this is one.
    pub(super) fn kind_of_rust(
        &mut self,
        place: Place,
        unit: &Unit<Bytes<'s>>,
        entry: &Entry<'s>,
    ) -> Option<Kind> {
        let is_vec = self.index.whole.get(&place).is_some_and(|name| name.starts_with(VEC));
        if is_vec { self.vector(unit, entry) } else { self.choice(unit, entry) }
    }

    fn vector(&mut self, unit: &Unit<Bytes<'s>>, entry: &Entry<'s>) -> Option<Kind> {
        let mut element = None;
        self.each_child(unit, entry, &mut |unit, child| {
            let is_first = child.tag() == dw::DW_TAG_template_type_parameter && element.is_none();
            if is_first {
                element = self.debug.type_of(unit, child);
            }
        });
        let (length, _) = self.member(unit, entry, "len")?;
        let (buffer, at) = BUFFER.iter().find_map(|path| {
            let (mut at, mut place) = (0_u64, None);
            for name in *path {
                let (offset, of) = match place {
                    None => self.member(unit, entry, name)?,
                    Some(place) => {
                        let (unit, entry) = self.debug.entry(place)?;
                        self.member(unit, &entry, name)?
                    }
                };
                (at, place) = (at.checked_add(offset)?, Some(of));
            }
            Some((place?, at))
        })?;
        let (unit, entry) = self.debug.entry(buffer)?;
        let [pointer, room] = ["ptr", "cap"].map(|name| self.member(unit, &entry, name));
        let [pointer, room] = [at.checked_add(pointer?.0)?, at.checked_add(room?.0)?];
        let of = self.number(element?, 0);
        Some(Kind::Vector(Vector { of, pointer, room, length }))
    }

    /// `Option` of a pointer, and the like: one kind of value has the word that tells which one it is, which is none of that
    /// kind's own in all others.
    fn choice(&mut self, unit: &Unit<Bytes<'s>>, entry: &Entry<'s>) -> Option<Kind> {
        let mut part = None;
        self.each_child(unit, entry, &mut |_, child| {
            if child.tag() == dw::DW_TAG_variant_part {
                part = Some(child.clone());
            }
        });
        let part = part?;
        let AttributeValue::UnitRef(word) = part.attr_value(dw::DW_AT_discr)? else { return None };
        let word = unit.entry(word).ok()?;
        let at = number(word.attr(dw::DW_AT_data_member_location))?;
        let mut kinds = Vec::new();
        self.each_child(unit, &part, &mut |_, child| {
            if child.tag() == dw::DW_TAG_variant && child.attr(dw::DW_AT_discr_value).is_none() {
                kinds.push(child.clone());
            }
        });
        // All that have a number for it are others.
        let [kind] = &kinds[..] else { return None };
        Some(Kind::Choice(at, self.members(unit, kind)))
    }

    /// Where a member lies, and its type.
    fn member(
        &self,
        unit: &Unit<Bytes<'s>>,
        entry: &Entry<'s>,
        name: &str,
    ) -> Option<(u64, Place)> {
        let mut found = None;
        self.each_child(unit, entry, &mut |unit, child| {
            if child.tag() == dw::DW_TAG_member
                && self.debug.name(unit, child).as_deref() == Some(name)
            {
                let offset = number(child.attr(dw::DW_AT_data_member_location));
                found = offset.zip(self.debug.type_of(unit, child));
            }
        });
        found
    }
}
