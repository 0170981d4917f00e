//! How long a stop is going to take, foreseen from the number of threads and from how many others want
//! the processors; nothing is stopped to find out. The truth may be half of it, or double.

use std::time::Duration;

use crate::refusal::Refusal;
use crate::trace::target::Target;

/// What one thread adds to a stop on a quiet machine: it is told to stop, wakes up to do so, is looked
/// at, and is let go.
const A_THREAD: Duration = Duration::from_micros(30);

/// A thread that slept mostly comes before those that compute: so many of these on each processor make
/// a stop take twice as long. Measured with 7 to 38 of them.
const AS_LONG_AGAIN: f64 = 3.0;

/// How often the load is looked at; it comes and goes within a moment.
const LOOKS: u32 = 5;

/// With fewer threads there is nothing to foresee.
const FEW: usize = 50;

/// What is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Foreseen {
    threads: usize,
    /// Threads of the whole machine that want a processor, on average.
    running: f64,
    processors: usize,
}

impl Foreseen {
    fn of(target: &Target) -> Self {
        let threads = target.process.threads().unwrap_or_default().len();
        let running = if threads < FEW { 0.0 } else { running() };
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self { threads, running, processors }
    }

    #[allow(clippy::cast_precision_loss)]
    fn stop(self) -> Duration {
        let load = self.running / self.processors.max(1) as f64;
        A_THREAD.mul_f64(self.threads as f64 * (1.0 + load / AS_LONG_AGAIN))
    }

    fn refusal(self, limit: Duration) -> Option<Refusal> {
        let stop = self.stop();
        let ms = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3);
        (stop > limit).then(|| Refusal {
            value: format!(
                "stopping {} threads would take about {} ({:.1} other threads want the {} \
                 processors just now)",
                self.threads,
                ms(stop),
                self.running,
                self.processors
            ),
            need: format!("at most {} (--max-stop)", ms(limit)),
            cure: format!(
                "try when the machine is less busy, or with --max-stop {}ms",
                stop.mul_f64(2.0).as_millis() + 1
            ),
            unsupported: false,
        })
    }
}

/// Refuses a target that would be stopped for longer than `limit`.
///
/// # Errors
/// With what is foreseen.
pub fn check(target: &Target, limit: Duration) -> Result<(), Refusal> {
    Foreseen::of(target).refusal(limit).map_or(Ok(()), Err)
}

/// How long a stop is going to take, as [`check`] foresees it.
pub fn stop(target: &Target) -> Duration {
    Foreseen::of(target).stop()
}

/// How many threads want a processor, but for the one that asks.
fn running() -> f64 {
    let mut sum = 0.0;
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        sum += f64::from(running_in(&text).unwrap_or(1).max(1) - 1);
    }
    sum / f64::from(LOOKS)
}

/// The fourth column of `/proc/loadavg`: running threads, and all there are.
fn running_in(loadavg: &str) -> Option<u32> {
    loadavg.split_whitespace().nth(3)?.split_once('/')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreseen(threads: usize, running: f64) -> Foreseen {
        Foreseen { threads, running, processors: 2 }
    }

    #[test]
    fn a_stop_takes_longer_by_threads_and_by_load_and_is_refused_beyond_the_limit() {
        let ms = |threads, running| foreseen(threads, running).stop().as_millis();
        assert_eq!([ms(1000, 0.0), ms(5000, 0.0), ms(20_000, 0.0)], [30, 150, 600]);
        assert_eq!([ms(1000, 6.0), ms(5000, 30.0)], [60, 900]);
        let second = Duration::from_secs(1);
        assert_eq!(foreseen(20_000, 3.0).refusal(second), None);
        let told = foreseen(20_000, 30.0).refusal(second).unwrap().to_string();
        assert!(told.starts_with("stopping 20000 threads would take about 3600 ms"), "{told}");
        assert!(told.contains("at most 1000 ms (--max-stop)"), "{told}");
        assert!(told.ends_with("--max-stop 7201ms"), "{told}");
    }

    #[test]
    fn the_load_is_read_as_the_kernel_tells_it() {
        assert_eq!(running_in("0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!([running_in(""), running_in("1 2 3 4 5"), running_in("1 2 3 x/9 5")], [None; 3]);
    }
}
