//! Profiles of programs that never were: a server that leaks a little, and one with very many stacks.

use heapattach_ledger::{
    EndReason, Function, Ledger, Line, Location, Metric, Module, Moment, Outcome, Row, Thread,
};
use heapattach_profile::Sum;

/// From the event loop inwards: what each function may call. The last ones ask for memory.
const CALLS: [(&str, &str, &[usize]); 22] = [
    ("main", "src/main.c", &[1, 2]),
    ("event_loop_run", "src/event/loop.c", &[3, 4, 5]),
    ("config_load", "src/config.c", &[12, 13]),
    ("connection_accept", "src/net/accept.c", &[6, 7]),
    ("connection_read", "src/net/read.c", &[8, 9, 10]),
    ("timer_expire", "src/event/timer.c", &[11, 14]),
    ("session_new", "src/session.c", &[15, 18]),
    ("tls_handshake", "src/net/tls.c", &[16, 17]),
    ("http_parse_request", "src/http/parse.c", &[12, 19]),
    ("router_dispatch(Request const&, Response&)", "src/http/router.cc", &[10, 13, 14, 20]),
    ("handler::render_template<std::string_view>(Context&)", "src/http/render.cc", &[12, 13, 21]),
    ("cache_evict", "src/cache.c", &[14]),
    ("buffer_grow", "src/buffer.c", &[]),
    ("json_value_new", "src/json.c", &[]),
    ("std::vector<Entry, std::allocator<Entry> >::_M_realloc_insert(Entry&&)", "vector.tcc", &[]),
    ("session_table_insert", "src/session.c", &[14]),
    ("CRYPTO_zalloc", "", &[]),
    ("SSL_new", "", &[16]),
    ("strdup", "", &[]),
    ("header_map_insert", "src/http/headers.c", &[18, 12]),
    ("database::query(std::string const&)", "src/db/query.cc", &[13, 21]),
    ("std::__cxx11::basic_string<char>::_M_create(unsigned long&)", "basic_string.tcc", &[]),
];

/// A small generator of numbers, the same ones each time.
pub struct Dice(u64);

impl Dice {
    /// With its first number.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// One of so many.
    pub fn of(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(self.0 >> 33).unwrap_or(0) % sides.max(1)
    }
}

/// A server that keeps sessions; `leak`: how many blocks for each of another program.
pub fn server(leak: u64, every: u64) -> Ledger {
    let modules = ["/usr/sbin/webserver", "/usr/lib/libc.so.6", "/usr/lib/libssl.so.3"];
    let mut ledger = begun(&modules, every);
    let in_module = |name: &str| match name {
        "CRYPTO_zalloc" | "SSL_new" => 2,
        "strdup" => 1,
        _ => 0,
    };
    add_function(&mut ledger, "malloc", "", 1, &[0]);
    for (name, file, _) in CALLS {
        add_function(&mut ledger, name, file, in_module(name), &[41, 88, 131]);
    }
    let mut dice = Dice::new(leak);
    let mut known = std::collections::HashSet::new();
    for _ in 0..600 {
        let mut at = 0;
        let mut locations = Vec::new();
        loop {
            locations.insert(0, u32::try_from(1 + at * 3 + dice.of(3)).unwrap());
            let below = CALLS[at].2;
            if below.is_empty() || locations.len() > 40 {
                break;
            }
            at = below[dice.of(below.len() * 2) % below.len()];
        }
        locations.insert(0, 0);
        if !known.insert(locations.clone()) {
            continue;
        }
        let is_session = locations.iter().any(|&at| (19..22).contains(&at));
        let blocks = 4 + dice.of(400) as u64 * if is_session { leak } else { 1 };
        let live = if is_session { blocks } else { blocks * dice.of(10) as u64 / 40 };
        let size = [24, 64, 192, 1024, 16_384][dice.of(5)];
        let thread = u32::try_from(dice.of(5)).unwrap();
        let end = if dice.of(40) == 0 { EndReason::NoTable } else { EndReason::Outermost };
        let temporary = (blocks - live) * dice.of(9) as u64 / 10;
        let blocks = [live, blocks, blocks - live, live + temporary / 9, temporary];
        add_stack(&mut ledger, locations, end, thread, size, blocks);
    }
    ledger.about.command = "webserver --config /etc/webserver.conf".to_owned();
    ledger.about.ends = [(EndReason::Outermost, 9800), (EndReason::NoTable, 200)].into();
    ledger.about.blind = vec!["libfoo.so: has a malloc of its own that is not hooked".to_owned()];
    for of in [3, 4] {
        ledger.rows[of].mapped = 64 << 20;
        ledger.rows[of].mapped_live = 16 << 20;
        ledger.total.mapped += 64 << 20;
        ledger.total.mapped_live += 16 << 20;
    }
    ledger
}

/// So many distinct stacks, each some 25 calls deep, of few blocks.
pub fn large(stacks: usize, every: u64) -> Ledger {
    many(stacks, every, 1)
}

/// The same, of so many more blocks.
pub fn many(stacks: usize, every: u64, times: u64) -> Ledger {
    let mut ledger =
        begun(&["/opt/app/bin/app", "/usr/lib/libc.so.6", "/opt/app/lib/libcore.so"], every);
    add_function(&mut ledger, "malloc", "malloc.c", 1, &[0]);
    for number in 0..5000 {
        let name = format!("app::Component{}::method_{number}(std::string const&)", number / 20);
        let module = if number % 3 == 0 { 2 } else { 0 };
        add_function(
            &mut ledger,
            &name,
            &format!("src/component{}.cc", number / 20),
            module,
            &[5, 6, 7],
        );
    }
    let mut dice = Dice::new(7);
    for _ in 0..stacks {
        let (mut at, mut locations) = (1, vec![]);
        for depth in 0..18 + dice.of(14) {
            locations.insert(0, at);
            let spread = if depth < 6 { 3 } else { 9 };
            at = u32::try_from(1 + (at as usize * 7 + dice.of(spread) * 97 + depth) % 15_000)
                .unwrap();
        }
        locations.insert(0, 0);
        let blocks = (1 + dice.of(3) as u64) * times;
        let live = blocks * (dice.of(2) as u64);
        let size = [32, 128, 1000, 5000][dice.of(4)];
        add_stack(
            &mut ledger,
            locations,
            EndReason::Outermost,
            0,
            size,
            [live, blocks, blocks - live, live, 0],
        );
    }
    ledger.about.command = "app".to_owned();
    ledger
}

fn begun(modules: &[&str], every: u64) -> Ledger {
    let module = |path: &&str| Module { path: (*path).to_owned(), ..Module::default() };
    let thread = |n: i32| Thread { tid: 4711 + n, name: format!("worker-{n}") };
    let mut ledger = Ledger {
        modules: modules.iter().map(module).collect(),
        threads: std::iter::once(Thread::default()).chain((1..5).map(thread)).collect(),
        ..Ledger::default()
    };
    ledger.about.pid = 4242;
    ledger.about.every = every;
    ledger.about.began = 1_700_000_000;
    ledger.about.lasted_ms = 600_000;
    ledger.about.outcome = Outcome::Detached.into();
    ledger.about.version = "0.1.0".to_owned();
    ledger.about.temporary_ms = 1;
    let mut dice = Dice::new(5);
    ledger.moments = (0..600_u32).map(|second| moment(second, &mut dice)).collect();
    ledger
}

/// Load comes in waves, and some of it stays.
fn moment(second: u32, dice: &mut Dice) -> Moment {
    let wave = (f64::from(second) / 38.0).sin().abs() * 9e6;
    let noise = f64::from(u32::try_from(dice.of(1_200_000)).unwrap());
    let stays = f64::from(second) * 21_000.0;
    let live = wave + noise + stays;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rss = 118_000_000 + (live * 1.3) as u64;
    Moment {
        at_ms: u64::from(second) * 1000,
        live,
        allocated: 1.9e6 * f64::from(second),
        blocks: 5200.0 * f64::from(second),
        rss: Some(rss),
        pss: Some(rss - 9_000_000),
        cgroup: Some(rss + 12_000_000),
        cgroup_limit: Some(256 << 20),
        ..Moment::default()
    }
}

fn add_function(ledger: &mut Ledger, name: &str, file: &str, module: u32, lines: &[u32]) {
    let function = u32::try_from(ledger.functions.len()).unwrap();
    let (name, file) = (name.to_owned(), file.to_owned());
    ledger.functions.push(Function { name, file, module, is_named: true, ..Function::default() });
    for &line in lines {
        let line = Line { function, line: Some(line).filter(|&line| line > 0) };
        ledger.locations.push(Location { address: 0, module, offset: 0, lines: vec![line] });
    }
}

fn add_stack(
    ledger: &mut Ledger,
    locations: Vec<u32>,
    end: EndReason,
    thread: u32,
    size: u64,
    blocks: [u64; 5],
) {
    let stack = u32::try_from(ledger.stacks.count()).unwrap();
    ledger.stacks.push(&locations, end, 1);
    let mut row = Row { stack, thread, ..Row::default() };
    for metric in Metric::ALL {
        let blocks = blocks[metric as usize];
        let sum = match ledger.about.every {
            1 => Sum::exact(size, blocks),
            every => Sum::sampled(size, blocks, every),
        };
        row.set(metric, &sum);
    }
    row.sizes.add(size, row.measure(Metric::Allocated).count.value);
    row.lifetimes.add(1 << (stack % 23), row.measure(Metric::Freed).count.value);
    ledger.total.merge(&row);
    ledger.rows.push(row);
    ledger.peak = ledger.total.measure(Metric::Peak).bytes;
}
