//! A part of a ledger: that of some functions, files, modules, threads or sizes.
//!
//! What a view or an export says of the part is what it would say of a program that did nothing
//! else. The moments are of all of it, and go.

use crate::{Call, Function, Histogram, Ledger, Metric, Row, Thread};
use heapattach_profile::Estimate;
use heapattach_text::{glob::matches, quantity};

/// What is asked for; empty lists ask for everything.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Stacks with such a function in them.
    pub functions: Vec<String>,
    /// Stacks with a function of such a file in them.
    pub files: Vec<String>,
    /// Stacks with a function of such a module in them.
    pub modules: Vec<String>,
    /// Threads of such a name or number.
    pub threads: Vec<String>,
    /// Stacks that allocate blocks of a size between these, by powers of two.
    pub sizes: Option<(u64, u64)>,
}

impl Filter {
    /// Whether everything is asked for.
    pub fn is_all(&self) -> bool {
        let lists = [&self.functions, &self.files, &self.modules, &self.threads];
        lists.iter().all(|list| list.is_empty()) && self.sizes.is_none()
    }

    /// The part of a ledger that is asked for.
    pub fn part_of(&self, mut ledger: Ledger) -> Ledger {
        if self.is_all() {
            return ledger;
        }
        // Each function once: there are more stacks than functions.
        let is_like =
            |function: &Function| self.functions.iter().any(|glob| function.is_like(glob));
        let likes: Vec<bool> = ledger.functions.iter().map(is_like).collect();
        let numbers = 0..ledger.stacks.count();
        let stacks: Vec<bool> = numbers
            .map(|stack| {
                u32::try_from(stack).is_ok_and(|stack| self.wants_stack(&ledger, stack, &likes))
            })
            .collect();
        let threads: Vec<bool> = ledger.threads.iter().map(|t| self.wants_thread(t)).collect();
        ledger.rows.retain(|row| {
            stacks[row.stack as usize] && threads[row.thread as usize] && self.wants_sizes(row)
        });
        let mut total = Row::default();
        ledger.rows.iter().for_each(|row| total.merge(row));
        let peak: Estimate = total.measure(Metric::Peak).bytes;
        (ledger.total, ledger.peak, ledger.moments) = (total, peak, Vec::new());
        ledger.about.part.extend(self.words());
        ledger
    }

    /// In words, for a reader who sees nothing else.
    fn words(&self) -> Vec<String> {
        let lists = [
            ("stacks with a function like", &self.functions),
            ("stacks with a function of a file like", &self.files),
            ("stacks with a function of a module like", &self.modules),
            ("threads like", &self.threads),
        ];
        let lists = lists.into_iter().filter(|(_, globs)| !globs.is_empty());
        let mut words: Vec<_> =
            lists.map(|(what, globs)| format!("{what} {}", globs.join(" or "))).collect();
        words.extend(self.sizes.map(|(least, most)| {
            let (least, most) = (quantity::bytes(least), (most < u64::MAX).then_some(most));
            let most =
                most.map_or("or more".to_owned(), |most| format!("to {}", quantity::bytes(most)));
            format!("stacks that allocate blocks of {least} {most}")
        }));
        words
    }

    /// `likes` tells of each function whether it is one of those that are asked for.
    fn wants_stack(&self, ledger: &Ledger, stack: u32, likes: &[bool]) -> bool {
        let wants = |globs: &[String], path: fn(&Call<'_>) -> String| {
            globs.is_empty()
                || ledger.calls(stack).any(|call| {
                    let path = path(&call);
                    globs.iter().any(|glob| is_path(glob, &path))
                })
        };
        let is_asked = || ledger.functions_of(stack).any(|function| likes[function as usize]);
        (self.functions.is_empty() || is_asked())
            && wants(&self.files, |call| call.function.file.clone())
            && wants(&self.modules, |call| call.module.path.clone())
    }

    fn wants_thread(&self, thread: &Thread) -> bool {
        let is = |glob: &String| matches(glob, &thread.name) || *glob == thread.tid.to_string();
        self.threads.is_empty() || self.threads.iter().any(is)
    }

    fn wants_sizes(&self, row: &Row) -> bool {
        let Some((least, most)) = self.sizes else { return true };
        let mut classes = row.sizes.buckets().into_iter().enumerate();
        classes.any(|(bucket, blocks)| {
            let (low, high) = Histogram::range(bucket);
            blocks > 0.0 && low <= most && high >= least
        })
    }
}

/// Whether a pattern fits a path, whole or by its last part.
fn is_path(glob: &str, path: &str) -> bool {
    matches(glob, path) || matches(glob, path.rsplit('/').next().unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn rows(filter: Filter) -> Vec<u32> {
        let part = filter.part_of(sample::ledger());
        assert!(part.is_sound());
        let sum: f64 = part.rows.iter().map(|row| row.measure(Metric::Live).bytes.value).sum();
        assert_eq!(sum, part.total.measure(Metric::Live).bytes.value);
        part.rows.iter().map(|row| row.stack).collect()
    }

    fn list(glob: &str) -> Vec<String> {
        vec![glob.to_owned()]
    }

    #[test]
    fn a_part_is_that_of_a_function_a_file_a_module_a_thread_or_a_size() {
        let all = Filter::default;
        assert_eq!(rows(all()), [0, 1, 2]);
        assert_eq!(rows(Filter { functions: list("grow_*"), ..all() }), [0]);
        assert_eq!(rows(Filter { functions: list("work<int>"), ..all() }), [2]);
        assert_eq!(rows(Filter { files: list("main.c"), ..all() }), [0, 1]);
        assert_eq!(rows(Filter { modules: list("/usr/lib/*"), ..all() }), [0, 1, 2]);
        assert_eq!(rows(Filter { modules: list("nowhere"), ..all() }), [0_u32; 0]);
        assert_eq!(rows(Filter { threads: list("work*"), ..all() }), [2]);
        assert_eq!(rows(Filter { threads: list("4711"), ..all() }), [2]);
        assert_eq!(rows(Filter { sizes: Some((64, 100)), ..all() }), [0]);
        assert_eq!(rows(Filter { sizes: Some((4096, u64::MAX)), ..all() }), [1]);
    }

    #[test]
    fn a_part_says_of_what() {
        let filter = Filter { functions: list("f*"), sizes: Some((64, 100)), ..Filter::default() };
        let words = filter.part_of(sample::ledger()).about.part;
        let expected =
            ["stacks with a function like f*", "stacks that allocate blocks of 64 B to 100 B"];
        assert_eq!(words, expected);
    }

    #[test]
    fn all_wishes_must_be_met() {
        let threads = list("worker");
        let filter = Filter { threads, functions: list("main"), ..Filter::default() };
        assert!(rows(filter).is_empty());
    }
}
