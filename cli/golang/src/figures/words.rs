//! One reading of the words that figures are made of, and whether they agree.

use heapattach_census::{
    Moment,
    counters::{Arena, Class, Numbers},
};

use super::{FigureFields, Places};
use crate::graph::layout::Field;

/// Pauses that the runtime remembers.
const PAUSES: u64 = 256;
/// Copies of the sums that it keeps; together they are the sums.
const COPIES: u64 = 3;
/// More size classes no release has.
const MOST_CLASSES: u64 = 256;

/// The sizes of objects of the size classes, of all releases since go1.16.
const SIZES: [u64; 68] = [
    0, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256, 288, 320,
    352, 384, 416, 448, 480, 512, 576, 640, 704, 768, 896, 1024, 1152, 1280, 1408, 1536, 1792,
    2048, 2304, 2688, 3072, 3200, 3456, 4096, 4864, 5376, 6144, 6528, 6784, 6912, 8192, 9472, 9728,
    10240, 10880, 12288, 13568, 14336, 16384, 18432, 19072, 20480, 21760, 24576, 27264, 28672,
    32768,
];

/// Why figures are not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The table is of another layout.
    #[error("{0} size classes where {known} are known", known = SIZES.len())]
    Classes(u64),
    /// Sums of classes are not the sum.
    #[error("its own sums disagree: {0} bytes by size class, {1} in all")]
    Sums(u64, u64),
    /// What is mapped is not what its parts are.
    #[error("its own sums disagree: {0} bytes are ready, their parts are {1}")]
    Ready(u64, u64),
}

impl Problem {
    /// Whether it is more than what a thread can have under way.
    pub fn is_far(self) -> bool {
        match self {
            Self::Classes(_) => true,
            Self::Sums(one, other) | Self::Ready(one, other) => {
                one.abs_diff(other) > one.max(other) / 10
            }
        }
    }
}

/// One reading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Words {
    pub percent: i32,
    pub limit: i64,
    pub percent_goal: u64,
    pub sweep_trigger: u64,
    pub triggered: u64,
    pub live: u64,
    pub marked: u64,
    pub in_use: u64,
    pub released: u64,
    pub free: u64,
    pub total_alloc: u64,
    pub total_free: u64,
    pub ready: u64,
    pub stacks: u64,
    pub work_buffers: u64,
    /// By the names of `runtime.MemStats`, what is told as it is.
    pub plain: Vec<(&'static str, u64)>,
    pub tiny: u64,
    pub large: [u64; 4],
    /// By class, objects allocated and freed.
    pub small: Vec<[u64; 2]>,
    pub classes: u64,
}

impl Words {
    /// Reads them once.
    pub fn read(moment: &Moment<'_>, fields: &FigureFields, places: &Places) -> Option<Self> {
        let controller = |field: Field| field.read(moment, places.controller);
        let stats = |field: Field| field.read(moment, places.memstats);
        let mut words = Self {
            percent: u32::try_from(controller(fields.percent)?).ok()?.cast_signed(),
            limit: controller(fields.limit)?.cast_signed(),
            percent_goal: controller(fields.percent_goal)?,
            sweep_trigger: controller(fields.sweep_trigger)?,
            triggered: controller(fields.triggered)?,
            live: controller(fields.live)?,
            marked: controller(fields.marked)?,
            in_use: controller(fields.in_use)?,
            released: controller(fields.released)?,
            free: controller(fields.free)?,
            total_alloc: controller(fields.total_alloc)?,
            total_free: controller(fields.total_free)?,
            ready: controller(fields.ready)?,
            classes: fields.small_alloc_count.size / 8,
            ..Self::default()
        };
        let fraction = f64::from_bits(stats(fields.cpu_fraction)?);
        let collections = stats(fields.collections)?;
        words.plain = vec![
            ("LastGC", stats(fields.last_gc)?),
            ("NumGC", collections),
            ("NumForcedGC", stats(fields.forced)?),
            ("PauseTotalNs", stats(fields.pause_total)?),
            ("GCCPUFraction.ppm", parts_per_million(fraction)),
            ("stacks_sys", stats(fields.stacks_sys)?),
            ("MSpanSys", stats(fields.mspan_sys)?),
            ("MCacheSys", stats(fields.mcache_sys)?),
            ("BuckHashSys", stats(fields.buckhash_sys)?),
            ("gc_misc_sys", stats(fields.gc_misc_sys)?),
            ("OtherSys", stats(fields.other_sys)?),
            ("MSpanInuse", fields.spans_in_use.read(moment, places.mheap)?),
            ("MCacheInuse", fields.caches_in_use.read(moment, places.mheap)?),
        ];
        let times = [fields.gc_time, fields.gc_idle_time, fields.all_time];
        let names = ["cpu.GCTotalTime", "cpu.GCIdleTime", "cpu.TotalTime"];
        for (name, field) in names.into_iter().zip(times) {
            let time = field.zip(places.work).and_then(|(field, work)| field.read(moment, work));
            words.plain.extend(time.map(|time| (name, time)));
        }
        words.pauses(moment, fields.pauses.place(places.memstats), collections)?;
        let first = fields.deltas.place(fields.heap_stats.place(places.memstats));
        let length = fields.deltas.size / COPIES;
        words.small = vec![[0; 2]; usize::try_from(words.classes.min(MOST_CLASSES)).ok()?];
        for copy in 0..COPIES {
            words.add(moment, fields, first.checked_add(copy * length)?)?;
        }
        Some(words)
    }

    fn pauses(&mut self, moment: &Moment<'_>, first: u64, collections: u64) -> Option<()> {
        let pause = |number: u64| moment.word(first.checked_add((number % PAUSES) * 8)?);
        let all = (0..collections.min(PAUSES)).map(|back| pause(collections - 1 - back));
        let all = all.collect::<Option<Vec<u64>>>()?;
        self.plain.push(("PauseNs.last", all.first().copied().unwrap_or(0)));
        self.plain.push(("PauseNs.longest_of_256", all.iter().copied().max().unwrap_or(0)));
        Some(())
    }

    /// Adds one copy of the sums. They are differences: one alone can be below zero.
    fn add(&mut self, moment: &Moment<'_>, fields: &FigureFields, copy: u64) -> Option<()> {
        let get = |field: Field| field.read(moment, copy);
        self.stacks = self.stacks.wrapping_add(get(fields.in_stacks)?);
        self.work_buffers = self.work_buffers.wrapping_add(get(fields.in_work_buffers)?);
        self.tiny = self.tiny.wrapping_add(get(fields.tiny_count)?);
        let large = [
            fields.large_alloc,
            fields.large_alloc_count,
            fields.large_free,
            fields.large_free_count,
        ];
        for (sum, field) in self.large.iter_mut().zip(large) {
            *sum = sum.wrapping_add(get(field)?);
        }
        let lists = [fields.small_alloc_count, fields.small_free_count];
        for (index, sums) in (0..).zip(&mut self.small) {
            for (sum, list) in sums.iter_mut().zip(lists) {
                *sum = sum.wrapping_add(moment.word(list.place(copy).checked_add(index * 8)?)?);
            }
        }
        Some(())
    }

    /// Whether they agree, as they must at rest; the runtime holds its own to the same.
    ///
    /// # Errors
    /// When they do not.
    pub fn check(&self) -> Result<(), Problem> {
        if self.classes != SIZES.len() as u64 {
            return Err(Problem::Classes(self.classes));
        }
        let (by_class, all) = (self.objects_by_class(), self.objects());
        if by_class != all {
            return Err(Problem::Sums(by_class, all));
        }
        let ready = self.system().wrapping_sub(self.released);
        // Stacks of threads can be mapped and not ready.
        if ready.abs_diff(self.ready) > self.ready / 50 {
            return Err(Problem::Ready(self.ready, ready));
        }
        Ok(())
    }

    fn objects(&self) -> u64 {
        self.total_alloc.wrapping_sub(self.total_free)
    }

    fn objects_by_class(&self) -> u64 {
        let small = self.small.iter().zip(SIZES).fold(0_u64, |sum, ([made, freed], size)| {
            sum.wrapping_add(made.wrapping_sub(*freed).wrapping_mul(size))
        });
        small.wrapping_add(self.large[0]).wrapping_sub(self.large[2])
    }

    fn plain(&self, name: &str) -> u64 {
        self.plain.iter().find(|(own, _)| *own == name).map_or(0, |(_, number)| *number)
    }

    /// All that it has of the system.
    fn system(&self) -> u64 {
        let parts =
            ["stacks_sys", "MSpanSys", "MCacheSys", "BuckHashSys", "gc_misc_sys", "OtherSys"];
        let own = parts.iter().fold(0_u64, |sum, name| sum.wrapping_add(self.plain(name)));
        [self.in_use, self.free, self.released, self.stacks, self.work_buffers]
            .iter()
            .fold(own, |sum, part| sum.wrapping_add(*part))
    }

    /// Under the names of `runtime.MemStats`.
    pub fn numbers(&self) -> Numbers {
        let sum = |which: usize| {
            self.small.iter().fold(0_u64, |sum, counts| sum.wrapping_add(counts[which]))
        };
        let mallocs = sum(0).wrapping_add(self.large[1]).wrapping_add(self.tiny);
        let frees = sum(1).wrapping_add(self.large[3]).wrapping_add(self.tiny);
        let heap = self.in_use.wrapping_add(self.free).wrapping_add(self.released);
        let mut numbers: Numbers = self.plain.iter().copied().collect();
        let stacks = numbers.remove("stacks_sys").unwrap_or(0);
        let misc = numbers.remove("gc_misc_sys").unwrap_or(0);
        numbers.extend([
            ("Sys", self.system()),
            ("HeapAlloc", self.objects()),
            ("TotalAlloc", self.total_alloc),
            ("Mallocs", mallocs),
            ("Frees", frees),
            ("HeapObjects", mallocs.wrapping_sub(frees)),
            ("HeapSys", heap),
            ("HeapIdle", self.free.wrapping_add(self.released)),
            ("HeapInuse", self.in_use),
            ("HeapReleased", self.released),
            ("StackInuse", self.stacks),
            ("StackSys", self.stacks.wrapping_add(stacks)),
            ("GCSys", misc.wrapping_add(self.work_buffers)),
            ("live_after_gc", self.marked),
            ("mapped_ready", self.ready),
        ]);
        numbers
    }

    /// Objects by size class.
    pub fn classes(&self) -> Arena {
        let class = |(size, [made, freed]): (u64, &[u64; 2])| Class {
            size,
            numbers: Numbers::from([
                ("nmalloc", *made),
                ("ndalloc", *freed),
                ("curregs", made.wrapping_sub(*freed)),
            ]),
            ..Class::default()
        };
        let all = SIZES.into_iter().zip(&self.small).filter(|(_, [made, _])| *made > 0);
        Arena { bins: all.map(class).collect(), ..Arena::default() }
    }
}

fn parts_per_million(fraction: f64) -> u64 {
    // A fraction that is none becomes 0 or 1.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let ppm = (fraction.clamp(0.0, 1.0) * 1e6).round() as u64;
    ppm
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Words {
        let mut words = Words { classes: 68, small: vec![[0; 2]; 68], ..Words::default() };
        words.small[2] = [100, 40];
        words.large = [50_000, 2, 20_000, 1];
        (words.total_alloc, words.total_free) = (51_600, 20_640);
        (words.in_use, words.free, words.released, words.ready) = (40_000, 1_000, 500, 41_000);
        words
    }

    #[test]
    fn sums_that_agree_are_told_by_the_names_of_memstats() {
        let words = words();
        words.check().unwrap();
        let numbers = words.numbers();
        let told = ["HeapAlloc", "HeapObjects", "Mallocs", "HeapIdle", "Sys"].map(|n| numbers[n]);
        assert_eq!(told, [30_960, 61, 102, 1_500, 41_500]);
        assert_eq!(words.classes().bins[0].numbers["curregs"], 60);
    }

    #[test]
    fn what_contradicts_itself_at_rest_is_refused() {
        let near = Words { total_alloc: 51_608, ..words() }.check().unwrap_err();
        assert!(near == Problem::Sums(30_960, 30_968) && !near.is_far());
        let far = Words { ready: 50_000, ..words() }.check().unwrap_err();
        assert!(far == Problem::Ready(50_000, 41_000) && far.is_far());
        assert!(Words { classes: 69, ..words() }.check().unwrap_err().is_far());
    }

    #[test]
    fn a_share_is_a_share() {
        assert_eq!(parts_per_million(0.25), 250_000);
        assert_eq!((parts_per_million(f64::NAN), parts_per_million(9.0)), (0, 1_000_000));
    }
}
