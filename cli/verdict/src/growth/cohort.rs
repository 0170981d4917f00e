//! The blocks that one stack allocated within the window: when they were born, and when they died, if
//! they did. Spans of equal length are the clock; a block may stand for many.

/// How old a block must be to be asked whether its kind still dies, in parts of the window.
const AGES: [f64; 4] = [1.0 / 8.0, 1.0 / 4.0, 1.0 / 2.0, 2.0 / 3.0];
/// So many standard deviations are 95 % of chances, on one side and on both.
const ONE_SIDED: f64 = 1.645;
const TWO_SIDED: f64 = 1.96;

/// Blocks born in the same span that died in the same one, or are in use.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// The span of birth.
    pub birth: usize,
    /// The span of death.
    pub death: Option<usize>,
    /// How many: the sum of what each record stands for.
    pub blocks: f64,
    /// The sum of the squares of what each record stands for.
    pub squares: f64,
    /// Their bytes.
    pub bytes: f64,
}

/// The blocks of a stack, by the spans of their birth and death.
#[derive(Clone, Debug)]
pub struct Cohort {
    spans: usize,
    cells: Vec<Cell>,
}

/// How those fare that have outlived some age.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Survival {
    /// The age, as a part of the window.
    pub age: f64,
    /// Bytes of those in use at the end.
    pub bytes: f64,
    /// How many records say so.
    pub records: f64,
    /// How many times each would die in a window, at most, with 95 % certainty.
    pub hazard: f64,
}

/// How much more was allocated in the last third than in the first: the ratio with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The ratio.
    pub ratio: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Cohort {
    /// Of a window of so many spans; what is not within it is left out.
    pub fn new(spans: usize, cells: impl IntoIterator<Item = Cell>) -> Self {
        let is_sane = |cell: &Cell| {
            let numbers = [cell.blocks, cell.squares, cell.bytes];
            cell.birth < spans
                && cell.death.is_none_or(|death| (cell.birth..spans).contains(&death))
                && numbers.iter().all(|number| number.is_finite() && *number >= 0.0)
                && cell.blocks > 0.0
        };
        Self { spans, cells: cells.into_iter().filter(is_sane).collect() }
    }

    /// The age after which they are known best not to die.
    pub fn survival(&self) -> Survival {
        let all = AGES.map(|age| self.survival_of(age));
        all.into_iter().min_by(|a, b| a.hazard.total_cmp(&b.hazard)).unwrap_or_default()
    }

    /// Bytes in use at the end that are older than a part of the window.
    pub fn held(&self, age: f64) -> f64 {
        let after = age * self.spans as f64;
        let old = self.cells.iter().filter(|cell| self.held_beyond(cell, after) > 0.0);
        old.map(|cell| cell.bytes).sum()
    }

    /// How the load of the window changed; `None` if too little was allocated.
    pub fn load(&self) -> Option<Load> {
        let mut births = vec![[0.0; 2]; self.spans];
        for cell in &self.cells {
            let [blocks, squares] = &mut births[cell.birth];
            (*blocks, *squares) = (*blocks + cell.blocks, *squares + cell.squares);
        }
        let third = self.spans / 3;
        let thirds = [&births[..third], &births[self.spans - third..]];
        let [(first, first_error), (last, last_error)] = thirds.map(mean_with_error);
        if first <= 0.0 || last <= 0.0 {
            return None;
        }
        let ratio = last / first;
        let error = (first_error / first).hypot(last_error / last);
        let factor = (TWO_SIDED * error).exp();
        Some(Load { ratio, low: ratio / factor, high: ratio * factor })
    }

    /// Spans that a live block has lived beyond some age.
    fn held_beyond(&self, cell: &Cell, after: f64) -> f64 {
        let age = (self.spans - cell.birth) as f64 - 0.5;
        if cell.death.is_none() { (age - after).max(0.0) } else { 0.0 }
    }

    fn survival_of(&self, age: f64) -> Survival {
        let after = age * self.spans as f64;
        let [mut deaths, mut exposure, mut bytes, mut held] = [0.0; 4];
        let [mut blocks, mut squares] = [0.0; 2];
        for cell in &self.cells {
            let beyond = match cell.death {
                Some(death) => ((death - cell.birth) as f64 - after).max(0.0),
                None => self.held_beyond(cell, after),
            };
            if beyond <= 0.0 {
                continue;
            }
            exposure += beyond * cell.blocks;
            blocks += cell.blocks;
            squares += cell.squares;
            match cell.death {
                Some(_) => deaths += cell.blocks,
                None => {
                    bytes += cell.bytes;
                    held += cell.blocks;
                }
            }
        }
        if exposure <= 0.0 {
            return Survival { age, hazard: f64::INFINITY, ..Survival::default() };
        }
        // What one record stands for.
        let weight = squares / blocks;
        let most = most_of_poisson(deaths / weight) * weight;
        let hazard = most / (exposure / self.spans as f64);
        Survival { age, bytes, records: held / weight, hazard }
    }
}

/// The mean of some spans and its standard error. Bursts make neighbours alike, so some are one. What
/// a few records say is never more certain than their number, however evenly they came.
fn mean_with_error(spans: &[[f64; 2]]) -> (f64, f64) {
    let groups = spans.chunks((spans.len() / 7).max(1));
    let means: Vec<f64> = groups
        .map(|group| group.iter().map(|[blocks, _]| blocks).sum::<f64>() / group.len() as f64)
        .collect();
    let count = means.len() as f64;
    let mean = means.iter().sum::<f64>() / count;
    let squares: f64 = means.iter().map(|one| (one - mean).powi(2)).sum();
    let scatter = (squares / (count - 1.0).max(1.0) / count).sqrt();
    let records = spans.iter().map(|[_, squares]| squares).sum::<f64>().sqrt() / spans.len() as f64;
    (mean, scatter.max(records))
}

/// The greatest mean that so few events are still likely with, after Wilson and Hilferty.
fn most_of_poisson(events: f64) -> f64 {
    let next = events + 1.0;
    next * (1.0 - 1.0 / (9.0 * next) + ONE_SIDED / (3.0 * next.sqrt())).powi(3)
}
