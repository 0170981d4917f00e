//! Goroutines that wait for ever: on channels that nothing leads to but goroutines that wait for ever, too.
//!
//! ```text
//! variables, finalizers, stacks of goroutines that do not wait on a channel -> what they reach
//! a goroutine that waits on a channel which is reached counts, too, and so on; the others wait for ever
//! ```
//!
//! A goroutine that waits for something else (a lock, the network, a timer) is never called leaked.

use heapattach_census::Moment;

use super::{
    goroutine::{Doing, Goroutine},
    heap::{Heap, Object, Sum, index},
    layout::Layout,
    quick_hash::QuickMap,
    references::References,
    roots::{Holder, Root},
};

/// Channels of one select that are looked at.
const MOST_CHANNELS: usize = 1 << 16;

/// Goroutines that wait for ever.
#[derive(Debug, Default)]
pub struct Leaked {
    /// Their numbers in the list.
    pub goroutines: Vec<u32>,
    /// What is reached by them alone: by goroutine of that list, objects that an earlier one has not.
    pub retained: Vec<Sum>,
}

struct Live<'a> {
    heap: &'a Heap,
    references: &'a References,
    /// Objects that are reached.
    marks: Vec<u64>,
    /// Channels, and the goroutines that wait on each.
    waiting: QuickMap<Object, Vec<u32>>,
    queue: Vec<Object>,
    /// Goroutines that came to count and whose stack is not looked at yet.
    awake: Vec<u32>,
    is_live: Vec<bool>,
}

impl Leaked {
    /// Finds them.
    pub fn of(
        moment: &Moment<'_>,
        layout: &Layout,
        heap: &Heap,
        references: &References,
        goroutines: &[Goroutine],
        roots: &[Root],
    ) -> Self {
        let mut live = Live {
            heap,
            references,
            marks: vec![0; heap.slots().div_ceil(64)],
            waiting: QuickMap::default(),
            queue: Vec::new(),
            awake: Vec::new(),
            is_live: vec![true; goroutines.len()],
        };
        for (number, goroutine) in (0..).zip(goroutines) {
            // The runtime lists the structures of all goroutines, and they lead to what each waits on: they
            // count as seen.
            if let Some((object, _)) = heap.find(goroutine.at) {
                live.marks[index(object) / 64] |= 1 << (index(object) % 64);
            }
            let channels = channels(moment, layout, heap, goroutine);
            if !channels.is_empty() {
                live.is_live[index(number)] = false;
                for channel in channels {
                    live.waiting.entry(channel).or_default().push(number);
                }
            }
        }
        let stacks = stacks(roots, goroutines.len());
        live.run(roots, &stacks);
        let mut leaked = Self::default();
        for number in 0..live.is_live.len() {
            if !live.is_live[number] {
                let found = live.reach(&roots[stacks[number].clone()]);
                leaked.goroutines.push(u32::try_from(number).unwrap_or(u32::MAX));
                leaked.retained.push(found);
            }
        }
        leaked
    }
}

impl Live<'_> {
    /// Marks all that counts.
    fn run(&mut self, roots: &[Root], stacks: &[std::ops::Range<usize>]) {
        let others = roots.iter().filter(|root| !matches!(root.holder, Holder::Stack(..)));
        others.for_each(|root| self.mark(root.target));
        let live = self.is_live.iter().enumerate().filter(|(_, is_live)| **is_live);
        self.awake.extend(live.map(|(number, _)| u32::try_from(number).unwrap_or(u32::MAX)));
        loop {
            while let Some(object) = self.queue.pop() {
                self.references.edges(object).iter().for_each(|edge| self.mark(edge.target));
            }
            let Some(number) = self.awake.pop() else { break };
            for root in roots.get(stacks[index(number)].clone()).unwrap_or_default() {
                self.mark(root.target);
            }
        }
    }

    /// What of these roots leads to that is not reached yet.
    fn reach(&mut self, roots: &[Root]) -> Sum {
        roots.iter().for_each(|root| self.mark(root.target));
        let mut sum = Sum::default();
        while let Some(object) = self.queue.pop() {
            sum.add(self.heap.span_of(object).size);
            self.references.edges(object).iter().for_each(|edge| self.mark(edge.target));
        }
        sum
    }

    fn mark(&mut self, object: Object) {
        let number = index(object);
        let Some(bits) = self.marks.get_mut(number / 64) else { return };
        let bit = 1 << (number % 64);
        if *bits & bit != 0 {
            return;
        }
        *bits |= bit;
        self.queue.push(object);
        if self.waiting.is_empty() {
            return;
        }
        for goroutine in self.waiting.remove(&object).unwrap_or_default() {
            if !std::mem::replace(&mut self.is_live[index(goroutine)], true) {
                self.awake.push(goroutine);
            }
        }
    }
}

/// By goroutine: the roots that lie in its stack. They follow each other.
fn stacks(roots: &[Root], goroutines: usize) -> Vec<std::ops::Range<usize>> {
    let mut stacks = vec![0..0; goroutines];
    for (at, root) in roots.iter().enumerate() {
        if let Holder::Stack(number, _) = root.holder
            && let Some(own) = stacks.get_mut(index(number))
        {
            let is_first = own.start == own.end;
            let start = if is_first { at } else { own.start };
            *own = start..at + 1;
        }
    }
    stacks
}

/// The channels that a goroutine waits on; none if it waits on anything else.
fn channels(
    moment: &Moment<'_>,
    layout: &Layout,
    heap: &Heap,
    goroutine: &Goroutine,
) -> Vec<Object> {
    let mut channels = Vec::new();
    let mut at = goroutine.waiting;
    if goroutine.doing != Doing::Waiting {
        return channels;
    }
    while at != 0 && channels.len() < MOST_CHANNELS {
        let channel = layout.waiting.channel.read(moment, at);
        let Some((channel, _)) = channel.and_then(|channel| heap.find(channel)) else {
            // One that is no object, or cannot be read, may be closed or sent to by anything.
            return Vec::new();
        };
        channels.push(channel);
        at = layout.waiting.next.read(moment, at).unwrap_or(0);
    }
    channels
}
