//! Where boxes and edges are drawn: callers above whom they call, in layers.
//!
//! Four steps, after Sugiyama, Tagawa and Toda: calls that lead back are turned round; each box gets the
//! layer below its callers; within layers boxes are put in an order with few crossings, for which edges
//! over several layers have a point in each; then they are moved towards what they are connected to, as
//! far as there is room.

/// Room between boxes of a layer, and between layers.
const BESIDE: f64 = 24.0;
const BELOW: f64 = 56.0;
/// How wide an edge is that passes through a layer.
const PASSING: f64 = 14.0;
/// Rounds of ordering, and of moving.
const ROUNDS: usize = 12;

/// Where everything is.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// The middle of each box.
    pub boxes: Vec<(f64, f64)>,
    /// For each edge, the points that it leads through, from the caller on. Of a call of itself none.
    pub routes: Vec<Vec<(f64, f64)>>,
    /// How wide it is.
    pub width: f64,
    /// How high.
    pub height: f64,
}

/// A box, or a point of an edge, in its layer.
#[derive(Clone, Debug)]
struct Item {
    layer: usize,
    width: f64,
    x: f64,
    above: Vec<usize>,
    below: Vec<usize>,
}

/// Everything in layers.
struct Layers {
    items: Vec<Item>,
    layers: Vec<Vec<usize>>,
}

/// Of boxes of these sizes, and of edges between them by their numbers.
pub fn layout(sizes: &[(f64, f64)], edges: &[(usize, usize)]) -> Layout {
    let downwards = without_circles(sizes.len(), edges);
    let ranks = ranks(sizes.len(), &downwards);
    let (mut layers, chains) = Layers::new(sizes, &ranks, &downwards);
    layers.put_in_order();
    layers.place();
    let height = |layer: &Vec<usize>| {
        let heights = layer.iter().filter_map(|&item| sizes.get(item)).map(|size| size.1);
        heights.fold(0.0, f64::max)
    };
    let heights: Vec<f64> = layers.layers.iter().map(height).collect();
    let mut middles = Vec::new();
    let mut y = 0.0;
    for height in &heights {
        middles.push(y + height / 2.0);
        y += height + BELOW;
    }
    let place = |item: &Item| (item.x, middles[item.layer]);
    let boxes: Vec<_> = layers.items[..sizes.len()].iter().map(place).collect();
    let route = |(chain, &(from, to)): (&Vec<usize>, &(usize, usize))| {
        if from == to {
            return Vec::new();
        }
        let mut points: Vec<(f64, f64)> =
            chain.iter().map(|&item| place(&layers.items[item])).collect();
        // The ends are where the boxes end.
        let last = points.len() - 1;
        points[0].1 += sizes[chain[0]].1 / 2.0;
        points[last].1 -= sizes[chain[last]].1 / 2.0;
        if chain[0] != from {
            points.reverse();
        }
        points
    };
    let routes = chains.iter().zip(edges).map(route).collect();
    let ends = layers.items.iter().map(|item| item.x + item.width / 2.0);
    Layout { boxes, routes, width: ends.fold(0.0, f64::max), height: (y - BELOW).max(0.0) }
}

/// The edges, those that lead back to where they came from turned round.
fn without_circles(count: usize, edges: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut below = vec![Vec::new(); count];
    edges.iter().for_each(|&(from, to)| below[from].push(to));
    // When each box was left for good: an edge to one that was left later leads back.
    let mut left = vec![usize::MAX; count];
    let (mut seen, mut clock) = (vec![false; count], 0);
    for start in 0..count {
        let mut open = vec![(start, 0)];
        while let Some((at, next)) = open.pop() {
            if next == 0 && std::mem::replace(&mut seen[at], true) {
                continue;
            }
            match below[at].get(next) {
                Some(&to) => {
                    open.push((at, next + 1));
                    if !seen[to] {
                        open.push((to, 0));
                    }
                }
                None => {
                    left[at] = clock;
                    clock += 1;
                }
            }
        }
    }
    let turned = |&(from, to): &(usize, usize)| {
        if left[to] > left[from] { (to, from) } else { (from, to) }
    };
    edges.iter().map(turned).collect()
}

/// The layer of each box: below all that call it.
fn ranks(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut ranks = vec![0; count];
    let mut callers = vec![0_usize; count];
    let others = || edges.iter().filter(|(from, to)| from != to);
    others().for_each(|&(_, to)| callers[to] += 1);
    let mut ready: Vec<usize> = (0..count).filter(|&at| callers[at] == 0).collect();
    while let Some(at) = ready.pop() {
        for &(_, to) in others().filter(|(from, _)| *from == at) {
            ranks[to] = ranks[to].max(ranks[at] + 1);
            callers[to] -= 1;
            if callers[to] == 0 {
                ready.push(to);
            }
        }
    }
    // What nothing calls stands next to what it calls, not at the top.
    for at in 0..count {
        let is_called = others().any(|&(_, to)| to == at);
        let first = others().filter(|(from, _)| *from == at).map(|&(_, to)| ranks[to]).min();
        if let Some(first) = first.filter(|_| !is_called) {
            ranks[at] = first - 1;
        }
    }
    ranks
}

impl Layers {
    /// With a point for each edge in every layer that it passes; for each edge, what it leads through.
    fn new(
        sizes: &[(f64, f64)],
        ranks: &[usize],
        edges: &[(usize, usize)],
    ) -> (Self, Vec<Vec<usize>>) {
        let item = |layer, width| Item { layer, width, x: 0.0, above: vec![], below: vec![] };
        let boxes = ranks.iter().zip(sizes).map(|(&layer, size)| item(layer, size.0));
        let mut items: Vec<Item> = boxes.collect();
        let mut chains = Vec::new();
        for &(from, to) in edges {
            let mut chain = vec![from];
            for layer in ranks[from] + 1..ranks[to] {
                items.push(item(layer, PASSING));
                chain.push(items.len() - 1);
            }
            chain.push(to);
            if from != to {
                for pair in chain.windows(2) {
                    items[pair[0]].below.push(pair[1]);
                    items[pair[1]].above.push(pair[0]);
                }
            }
            chains.push(chain);
        }
        let count = items.iter().map(|item| item.layer + 1).max().unwrap_or(0);
        let mut layers = vec![Vec::new(); count];
        for (number, item) in items.iter().enumerate() {
            layers[item.layer].push(number);
        }
        (Self { items, layers }, chains)
    }

    /// Each layer by where its neighbours are, down and up again; the best order that was met stays.
    fn put_in_order(&mut self) {
        let mut best = (self.crossings(), self.layers.clone());
        for round in 0..ROUNDS {
            let is_down = round % 2 == 0;
            let count = self.layers.len();
            for step in 1..count {
                let at = if is_down { step } else { count - 1 - step };
                let beside = if is_down { at - 1 } else { at + 1 };
                let places = self.places(beside);
                let mut keyed: Vec<(f64, usize)> = Vec::new();
                for (place, &item) in self.layers[at].iter().enumerate() {
                    let neighbours = match is_down {
                        true => &self.items[item].above,
                        false => &self.items[item].below,
                    };
                    let sum: usize = neighbours.iter().map(|&other| places[other]).sum();
                    let mean = match neighbours.len() {
                        0 => place as f64,
                        some => sum as f64 / some as f64,
                    };
                    keyed.push((mean, item));
                }
                keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
                self.layers[at] = keyed.into_iter().map(|(_, item)| item).collect();
            }
            let crossings = self.crossings();
            if crossings < best.0 {
                best = (crossings, self.layers.clone());
            }
        }
        self.layers = best.1;
    }

    /// Where each item of a layer stands in it.
    fn places(&self, layer: usize) -> Vec<usize> {
        let mut places = vec![0; self.items.len()];
        for (place, &item) in self.layers[layer].iter().enumerate() {
            places[item] = place;
        }
        places
    }

    /// How many pairs of edges cross.
    fn crossings(&self) -> usize {
        let count = self.layers.len();
        let between = |layer: usize| {
            let below = self.places(layer + 1);
            let mut ends: Vec<usize> = Vec::new();
            let mut crossings = 0;
            for &item in &self.layers[layer] {
                let own: Vec<usize> =
                    self.items[item].below.iter().map(|&other| below[other]).collect();
                let crossed = |end: &usize| ends.iter().filter(|before| *before > end).count();
                crossings += own.iter().map(crossed).sum::<usize>();
                ends.extend(own);
            }
            crossings
        };
        (0..count.saturating_sub(1)).map(between).sum()
    }

    /// Moves what is in a layer towards its neighbours.
    fn place(&mut self) {
        for round in 0..=ROUNDS {
            let count = self.layers.len();
            for step in 0..count {
                let at = if round % 2 == 0 { step } else { count - 1 - step };
                let wanted = |&item: &usize| {
                    let Item { above, below, x, .. } = &self.items[item];
                    let neighbours = above.iter().chain(below).map(|&other| self.items[other].x);
                    let all = neighbours.clone().count();
                    if all == 0 { *x } else { neighbours.sum::<f64>() / all as f64 }
                };
                let wanted: Vec<f64> = self.layers[at].iter().map(wanted).collect();
                let widths = self.layers[at].iter().map(|&item| self.items[item].width);
                let places = apart(&wanted, &widths.collect::<Vec<_>>());
                for (&item, x) in self.layers[at].iter().zip(places) {
                    self.items[item].x = x;
                }
            }
        }
        let first = self.items.iter().map(|item| item.x - item.width / 2.0);
        let first = first.fold(f64::INFINITY, f64::min);
        self.items.iter_mut().for_each(|item| item.x -= first);
    }
}

/// The places nearest to the wanted ones, in their order and without overlapping: those that want to be
/// where others are stand as a block around the mean of what they want.
fn apart(wanted: &[f64], widths: &[f64]) -> Vec<f64> {
    let mut offsets = vec![0.0];
    for pair in widths.windows(2) {
        offsets.push(offsets[offsets.len() - 1] + (pair[0] + pair[1]) / 2.0 + BESIDE);
    }
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for (wanted, offset) in wanted.iter().zip(&offsets) {
        let (mut sum, mut count) = (wanted - offset, 1);
        while let Some(&(before, many)) = blocks.last()
            && before / many as f64 > sum / count as f64
        {
            (sum, count) = (sum + before, count + many);
            blocks.pop();
        }
        blocks.push((sum, count));
    }
    let starts = blocks.into_iter().flat_map(|(sum, count)| vec![sum / count as f64; count]);
    starts.zip(offsets).map(|(start, offset)| start + offset).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn callers_are_above_and_circles_are_broken() {
        let sizes = [(100.0, 40.0); 4];
        let drawn = layout(&sizes, &[(0, 1), (1, 2), (2, 1), (0, 3), (3, 3)]);
        let y = |at: usize| drawn.boxes[at].1;
        assert!(y(0) < y(1) && y(1) < y(2) && y(0) < y(3), "{drawn:?}");
        let back = &drawn.routes[2];
        assert!(back[0].1 > back[back.len() - 1].1, "it leads up: {back:?}");
        assert!(drawn.routes[4].is_empty());
    }

    #[test]
    fn edges_that_need_not_cross_do_not() {
        let sizes = [(100.0, 40.0); 6];
        let drawn = layout(&sizes, &[(0, 5), (1, 4), (2, 3)]);
        let order = |ends: [usize; 3]| {
            let mut sorted = [0, 1, 2];
            sorted.sort_by(|&a, &b| drawn.boxes[ends[a]].0.total_cmp(&drawn.boxes[ends[b]].0));
            sorted
        };
        assert_eq!(order([0, 1, 2]), order([5, 4, 3]));
    }

    #[test]
    fn blocks_stand_around_what_they_want() {
        assert_eq!(apart(&[50.0, 50.0], &[76.0, 76.0]), [0.0, 100.0]);
        assert_eq!(apart(&[0.0, 500.0], &[76.0, 76.0]), [0.0, 500.0]);
    }

    proptest! {
        #[test]
        fn no_boxes_overlap(
            count in 1..30_usize,
            edges in prop::collection::vec((0..30_usize, 0..30_usize), 0..60),
        ) {
            let edges: Vec<_> = edges.iter().map(|(a, b)| (a % count, b % count)).collect();
            let sizes: Vec<_> = (0..count).map(|at| (40.0 + 7.0 * at as f64, 30.0)).collect();
            let drawn = layout(&sizes, &edges);
            for (one, a) in drawn.boxes.iter().enumerate() {
                prop_assert!(a.0 - sizes[one].0 / 2.0 > -0.01 && a.0 <= drawn.width);
                for (other, b) in drawn.boxes.iter().enumerate().skip(one + 1) {
                    let is_beside = (a.1 - b.1).abs() < 1.0;
                    let room = (sizes[one].0 + sizes[other].0) / 2.0;
                    prop_assert!(!is_beside || (a.0 - b.0).abs() > room, "{:?} {:?}", a, b);
                }
            }
            for (route, (from, to)) in drawn.routes.iter().zip(&edges) {
                prop_assert_eq!(route.len() < 2, from == to);
            }
        }
    }
}
