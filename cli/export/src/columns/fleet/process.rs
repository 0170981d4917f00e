//! One process of a fleet: its pattern, larger or smaller, and as the estimates of another sampling would be.

use super::{
    draw::{Draw, mixed, number},
    pattern::{Pattern, VALUES},
};
use crate::parquet::Value;

/// So many stacks have rows of their own.
const STACKS: usize = 20;
/// Sizes of a stack differ by so many powers of two, up and down.
const SPREAD: f64 = 2.0;
/// By this part an estimate differs from another one of the same.
const NOISE: f64 = 0.05;
/// By so much more the largest stack of the new build has in use.
const REGRESSION: f64 = 1.5;

/// Values of a row of sums that are of what is in use: bytes and blocks, each with its ends.
const LIVE: usize = 6;

/// Takes a row.
type Put<'a, E> = &'a mut dyn FnMut(Vec<Value>) -> Result<(), E>;
/// Takes a stack, and its values from interval to interval.
type Take<'a, E> = &'a mut dyn FnMut(i64, &[[i64; VALUES]]) -> Result<(), E>;

/// A process.
pub struct Process<'a> {
    /// What it does.
    pub pattern: &'a Pattern,
    /// Its service.
    pub service: u32,
    /// Its machine.
    pub machine: u32,
    /// Which of its machine's.
    pub pid: u32,
    /// Whether it is of the new build.
    pub is_new: bool,
    /// Midnight, in milliseconds since 1970.
    pub day_ms: i64,
}

impl Process<'_> {
    /// The number of its session.
    pub fn session(&self) -> i64 {
        number(&[1, self.machine.into(), self.pid.into()])
    }

    /// Its machine's name.
    pub fn host(&self) -> String {
        format!("machine-{:05}", self.machine)
    }

    /// The number in its build of a stack, a frame or a module.
    pub fn of_build(&self, of: i64) -> i64 {
        match of {
            0 => 0,
            of => number(&[of.cast_unsigned(), self.service.into(), self.is_new.into()]),
        }
    }

    /// The build id of its program.
    pub fn build(&self) -> String {
        format!("{:016x}", mixed(&[2, self.service.into(), self.is_new.into()]))
    }

    /// Puts the rows of its sums.
    pub fn sums<E>(&self, put: Put<'_, E>) -> Result<(), E> {
        self.each_stack(&mut |stack, values| self.rows(stack, values, put))
    }

    /// Puts the rows of its ends.
    pub fn ends<E>(&self, put: Put<'_, E>) -> Result<(), E> {
        let intervals = &self.pattern.intervals;
        let start = |of: Option<&[i64; 2]>| self.day_ms + of.map_or(0, |[start, _]| *start);
        let starts = [start(intervals.first()), start(intervals.last())];
        self.each_stack(&mut |stack, values| {
            let mut row: Vec<Value> =
                vec![self.session().into(), self.host().as_str().into(), stack.into()];
            row.extend(starts.map(Value::Number));
            let ends = [values.first(), values.last()].into_iter().flatten();
            row.extend(ends.flat_map(|values| &values[..LIVE]).copied().map(Value::Number));
            put(row)
        })
    }

    /// Its stacks with what they have, the others as 0.
    fn each_stack<E>(&self, take: Take<'_, E>) -> Result<(), E> {
        let mut draw = Draw(mixed(&[3, self.machine.into(), self.pid.into()]));
        let series = &self.pattern.series;
        let factors = series.iter().map(|_| draw.between(-SPREAD, SPREAD).exp2());
        let mut sized: Vec<_> = series.iter().zip(factors).collect();
        // By what is in use at the end; the others are others.
        let live = |(series, factor): &(&super::Series, f64)| match series.stack {
            0 => 0.0,
            _ => scaled(series.values.last().map_or(0, |values| values[0]), *factor),
        };
        sized.sort_by(|a, b| live(b).total_cmp(&live(a)));
        let mut others = vec![[0; VALUES]; self.pattern.intervals.len()];
        for (rank, (series, factor)) in sized.into_iter().enumerate() {
            let factor = if self.is_new && rank == 0 { factor * REGRESSION } else { factor };
            let values = varied(&series.values, factor, &mut draw);
            if rank < STACKS && series.stack != 0 {
                take(self.of_build(series.stack), &values)?;
                continue;
            }
            for (sum, values) in others.iter_mut().zip(values) {
                sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
            }
        }
        take(0, &others)
    }

    fn rows<E>(&self, stack: i64, values: &[[i64; VALUES]], put: Put<'_, E>) -> Result<(), E> {
        let (session, host) = (self.session(), self.host());
        for (&[start, lasted], values) in self.pattern.intervals.iter().zip(values) {
            let mut row: Vec<Value> = Vec::with_capacity(values.len() + 6);
            row.extend([
                session.into(),
                host.as_str().into(),
                i64::from(self.pid).into(),
                (self.day_ms + start).into(),
                lasted.into(),
                stack.into(),
            ]);
            row.extend(values.iter().map(|value| Value::Number(*value)));
            put(row)?;
        }
        Ok(())
    }
}

/// Values times a factor, and an error that is another one where the values are others.
fn varied(values: &[[i64; VALUES]], factor: f64, draw: &mut Draw) -> Vec<[i64; VALUES]> {
    let mut before: &[i64] = &[];
    let mut errors = [1.0; VALUES / 3];
    let vary = |now: &[i64; VALUES], before: &[i64], errors: &mut [f64], draw: &mut Draw| {
        let mut varied = [0; VALUES];
        for (at, error) in errors.iter_mut().enumerate() {
            let cell = 3 * at..3 * at + 3;
            if before.get(cell.clone()) != Some(&now[cell.clone()]) {
                *error = draw.between(1.0 - NOISE, 1.0 + NOISE);
            }
            let scale = factor * *error;
            for (out, &value) in varied[cell.clone()].iter_mut().zip(&now[cell]) {
                // Sums of a recording are far from the ends of these numbers.
                #[allow(clippy::cast_possible_truncation)]
                let rounded = scaled(value, scale).round() as i64;
                *out = rounded;
            }
        }
        varied
    };
    let mut out = Vec::with_capacity(values.len());
    for now in values {
        out.push(vary(now, before, &mut errors, draw));
        before = now;
    }
    out
}

#[allow(clippy::cast_precision_loss)]
fn scaled(value: i64, factor: f64) -> f64 {
    value as f64 * factor
}
