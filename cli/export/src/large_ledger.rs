//! A large ledger, for real readers: some thousand stacks of several threads, with names of all
//! sorts.

use heapattach_ledger::{
    EndReason, Function, Ledger, Line, Location, Metric, Module, Moment, Row, Thread,
};
use heapattach_profile::Sum;

/// Stacks.
const STACKS: u32 = 4000;
const FUNCTIONS: u32 = 300;

/// Numbers that look random and are always the same.
struct Dice(u64);

impl Dice {
    fn of(&mut self, sides: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(self.0 >> 33).unwrap() % sides
    }
}

/// It; the source of the first function is `source`.
pub fn ledger(source: &str) -> Ledger {
    let mut dice = Dice(7);
    let mut ledger = Ledger { modules: modules(), ..Ledger::default() };
    ledger.functions = (0..FUNCTIONS).map(|number| function(number, source)).collect();
    // Three places of each function; at every fifth something was inlined.
    ledger.locations = (0..3 * FUNCTIONS).map(|number| location(number, &mut dice)).collect();
    ledger.threads = (0..5).map(|n| Thread { tid: n * 100, name: format!("worker {n}") }).collect();
    for number in 0..STACKS {
        let (locations, cause) = stack(&mut dice);
        let end = if number % 50 == 0 { EndReason::NoTable } else { EndReason::Outermost };
        ledger.stacks.push(&locations, end, cause);
        // Some stacks are of two threads.
        for thread in 0..=u32::from(number % 7 == 0) {
            let row = row(number, (number + thread) % 5, &mut dice);
            ledger.total.merge(&row);
            ledger.rows.push(row);
        }
    }
    let peak = ledger.total.measure(Metric::Peak).bytes;
    ledger.peak = peak;
    tell(&mut ledger, peak.value);
    assert!(ledger.is_sound());
    ledger
}

fn modules() -> Vec<Module> {
    let paths = ["/opt/crowd/crowd", "/usr/lib/libcrowd.so.1", "/opt/my libs/plugin.so", "[vdso]"];
    let module = |(number, path): (u64, &str)| Module {
        path: path.to_owned(),
        build_id: format!("{:040x}", number + 1),
        start: 0x10_0000 * (number + 1),
        end: 0x10_0000 * (number + 2),
        bias: 0x10_0000 * (number + 1),
        file_offset: Some(0),
    };
    (0..).zip(paths).map(module).collect()
}

fn function(number: u32, source: &str) -> Function {
    let name = match number % 6 {
        0 => format!("c_function_{number}"),
        1 => format!("crowd::Store<std::map<int, std::string>>::add{number}(int&&, char const*)"),
        2 => format!("<[u8; {number}] as crowd::Take>::take"),
        3 => format!("operator--(crowd::Node{number}&)"),
        4 => format!("crowd::{{closure#{number}}}::<\"quoted & <marked>\">"),
        _ => format!("libcrowd.so.1+{number:#x}"),
    };
    let file = match number {
        0 => source.to_owned(),
        n if n % 6 == 5 => String::new(),
        n => format!("/src/crowd {}.cc", n % 11),
    };
    Function { name, file, module: number % 4, is_named: number % 6 != 5, ..Function::default() }
}

fn location(number: u32, dice: &mut Dice) -> Location {
    let function = number / 3;
    let module = function % 4;
    let offset = u64::from(0x100 + 0x40 * number);
    let line = |function: u32, line: u32| Line { function, line: Some(line) };
    let mut lines = vec![line(function, 1 + number % 3)];
    if number.is_multiple_of(5) {
        lines.insert(0, line(dice.of(FUNCTIONS), 70 + number % 9));
    }
    Location { address: 0x10_0000 * u64::from(module + 1) + offset, module, offset, lines }
}

/// Its locations, and its cause.
fn stack(dice: &mut Dice) -> (Vec<u32>, u32) {
    // Callers are alike, the innermost calls are not.
    let callers = (0..3 + dice.of(20)).map(|depth| 30 * depth + dice.of(2 + depth));
    let mut locations: Vec<u32> = callers.map(|at| at % (3 * FUNCTIONS)).collect();
    locations.reverse();
    locations.insert(0, dice.of(3 * FUNCTIONS));
    (locations, dice.of(3))
}

fn row(stack: u32, thread: u32, dice: &mut Dice) -> Row {
    let size = [16, 24, 100, 1000, 5000, 123_457][dice.of(6) as usize];
    let allocated = u64::from(1 + dice.of(200));
    let live = u64::from(dice.of(3)) * allocated / 3;
    let peak = live + (allocated - live) / 2;
    let temporary = (allocated - live) / 3;
    let mut row = Row { stack, thread, ..Row::default() };
    row.set_sums([live, allocated, allocated - live, peak, temporary].map(|n| Sum::exact(size, n)));
    row.sizes.add(size, row.measure(Metric::Allocated).count.value);
    row.lifetimes.add(300, row.measure(Metric::Freed).count.value);
    row
}

fn tell(ledger: &mut Ledger, peak: f64) {
    let about = &mut ledger.about;
    (about.pid, about.began, about.lasted_ms) = (4242, 1_700_000_000, 60_000);
    (about.every, about.temporary_ms) = (1, 1);
    about.command = "/opt/crowd/crowd --size \"large & <wide>\"".to_owned();
    about.version = "0.1.0".to_owned();
    about.loss.frees = 12;
    // Up to the peak after 40 seconds, and down again.
    ledger.moments = (0..=60_u32)
        .map(|second| Moment {
            at_ms: u64::from(second) * 1000,
            live: peak * (1.0 - f64::from(second.abs_diff(40)) / 40.0),
            blocks: 1000.0 * f64::from(second),
            rss: Some(100_000_000 + u64::from(second) * 100_000),
            ..Moment::default()
        })
        .collect();
}
