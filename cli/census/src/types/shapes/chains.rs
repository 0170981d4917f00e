//! Forms of many nodes: each node is looked at, and their number must be the one that the head says.

use super::forms::View;

/// Longer chains are not followed to their end, and are none then.
const MOST: u64 = 1 << 24;
/// A node of the standard library is no larger; the elements of what is may be elsewhere.
const LARGEST: u64 = 1 << 16;
/// Colours of a node in a tree.
const RED: u64 = 0;
const BLACK: u64 = 1;

impl View<'_, '_> {
    /// Nodes of a ring: two links in the head, which is one of the ring, and their number behind.
    pub fn list(&self, at: u64) -> Option<Vec<u32>> {
        let [next, before, count] = self.words(at)?;
        if count == 0 || count > MOST || next == at || before == at {
            return None;
        }
        let (mut nodes, mut from, mut to) = (Vec::new(), at, next);
        while to != at {
            self.step()?;
            let (number, size) = self.block(to)?;
            let [next, before] = self.words(to)?;
            if before != from || nodes.len() as u64 >= count || !(24..=LARGEST).contains(&size) {
                return None;
            }
            nodes.push(number);
            (from, to) = (to, next);
        }
        (nodes.len() as u64 == count && before == from).then_some(nodes)
    }

    /// Nodes of a tree: the head has its colour, the root, the first, the last, and their number; the root leads
    /// back to the head, and each node to the one above it.
    pub fn tree(&self, at: u64) -> Option<Vec<u32>> {
        let [colour, root, first, last, count] = self.words(at)?;
        if colour & 0xffff_ffff != RED || count == 0 || count > MOST {
            return None;
        }
        if [root, first, last].contains(&0) {
            return None;
        }
        let (mut nodes, mut open) = (Vec::new(), vec![(root, at)]);
        let (mut has_first, mut has_last) = (false, false);
        while let Some((node, above)) = open.pop() {
            self.step()?;
            let (number, size) = self.block(node)?;
            let [colour, back, left, right] = self.words(node)?;
            let is_node = colour & 0xffff_ffff <= BLACK
                && back == above
                && (40..=LARGEST).contains(&size)
                && (nodes.len() as u64) < count;
            if !is_node {
                return None;
            }
            has_first |= node == first && left == 0;
            has_last |= node == last && right == 0;
            nodes.push(number);
            open.extend(
                [left, right].into_iter().filter(|&below| below != 0).map(|below| (below, node)),
            );
        }
        (nodes.len() as u64 == count && has_first && has_last).then_some(nodes)
    }

    /// A table and its nodes: the head has the table, the number of its slots, the first node, and the number of
    /// nodes; each slot leads to nothing, to the head or to a node. Answers the table, if it is a block, and the nodes.
    pub fn hash(&self, at: u64) -> Option<(Option<u32>, Vec<u32>)> {
        let [table, slots, first, count] = self.words(at)?;
        if count == 0 || count > MOST || slots == 0 || slots > MOST || first == 0 {
            return None;
        }
        // What leads to the first node is in the head.
        let own = at.checked_add(16)?;
        let number = match slots {
            // One slot lies in the head itself.
            1 if table == at.checked_add(48)? => None,
            1 => return None,
            _ => {
                let (number, size) = self.block(table)?;
                if !self.is_room_of(slots.checked_mul(8)?, size) {
                    return None;
                }
                Some(number)
            }
        };
        let (mut nodes, mut at) = (Vec::new(), first);
        while at != 0 {
            self.step()?;
            let (number, size) = self.block(at)?;
            if nodes.len() as u64 >= count || !(16..=LARGEST).contains(&size) {
                return None;
            }
            nodes.push(number);
            [at] = self.words(at)?;
        }
        if nodes.len() as u64 != count {
            return None;
        }
        nodes.sort_unstable();
        let (mut leads_to_head, mut place) = (false, table);
        for _ in 0..slots {
            let [slot] = self.words(place)?;
            leads_to_head |= slot == own;
            let is_known = slot == 0
                || slot == own
                || self.block(slot).is_some_and(|(number, _)| nodes.binary_search(&number).is_ok());
            if !is_known {
                return None;
            }
            place += 8;
        }
        leads_to_head.then_some((number, nodes))
    }
}
