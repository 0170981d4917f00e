//! The runtime of a Go program that runs: where its profile is, and what functions are called.

use std::{cmp::Reverse, time::Duration};

use heapattach_census::{Live, Moment, Region};
use heapattach_golang::{
    Go, dwarf,
    figures::Figures,
    graph::{
        objects,
        site::{Code, OfType, Sites, by_type},
    },
    profile::{self, Profile, ReadError, Reading},
    tables::Table,
};
use heapattach_injector::target::Target;
use heapattach_ledger::TypeSum;
use heapattach_process::{addr::RemoteAddr, memory::Memory, proc::Process};
use heapattach_text::quantity::bytes;
use heapattach_verdict::figure::whole;

use super::rate::Switched;
use crate::runtimes::go_program::{self, has_c_library};

/// A first reading is tried so often, with pauses.
const TRIES: u32 = 40;
const PAUSE: Duration = Duration::from_millis(25);
/// Types that are told.
const TYPES: usize = 100;

/// A Go program.
#[derive(Debug)]
pub struct Found {
    process: Process,
    memory: RunningMemory,
    go: Go,
    profile: Profile,
    rate: u64,
}

/// Memory that is read as it is just then.
#[derive(Debug)]
struct RunningMemory(Memory);

impl profile::Live for RunningMemory {
    fn read(&self, at: u64, buffer: &mut [u8]) -> bool {
        self.0.read(RemoteAddr::new(at), buffer).is_ok()
    }
}

/// The profile of a Go program that has no C library: such a one allocates nothing that hooks would see. `None`
/// if it is none of these; why not, if it is one and nothing can be said of it.
pub fn wanted(target: &Target) -> Option<Result<Found, String>> {
    let regions = Live::regions(&target.process).ok()?;
    if has_c_library(&regions) { None } else { find(&target.process, regions) }
}

/// The profile of any Go program.
pub fn any(target: &Target) -> Option<Result<Found, String>> {
    find(&target.process, Live::regions(&target.process).ok()?)
}

/// The profile of a Go program that has a C library as well, which hooks see.
pub fn beside(target: &Target) -> Option<Result<Found, String>> {
    let regions = Live::regions(&target.process).ok()?;
    let is_both = has_c_library(&regions) && go_program::may_be(&target.process, &regions);
    if is_both { find(&target.process, regions) } else { None }
}

fn find(process: &Process, regions: Vec<Region>) -> Option<Result<Found, String>> {
    let live = Live::open(process).ok()?;
    let moment = Moment::new(&live, regions, Vec::new());
    let go = match Go::find(&moment)? {
        Ok(go) => go,
        Err(error) => return Some(Err(error.to_string())),
    };
    let profile = go.profile(&moment, &|_| None).or_else(|error| {
        // Code that was not optimized refers to variables in another order.
        let is_program = moment.images().first() == Some(&go.image);
        let file = is_program.then(|| process.open_program().ok()).flatten();
        let Some(variables) = file.and_then(dwarf::Variables::read) else { return Err(error) };
        go.profile(&moment, &|name| Some(variables.named(name)?.wrapping_add(go.bias)))
    });
    let profile = match profile {
        Ok(profile) => profile,
        Err(error) => return Some(Err(error.to_string())),
    };
    let opened = Process::open(process.pid()).and_then(|own| Ok((Memory::open(&own)?, own)));
    let found = opened.map(|(memory, process)| Found {
        process,
        memory: RunningMemory(memory),
        go,
        profile,
        rate: 0,
    });
    Some(found.map_err(|errno| format!("its memory cannot be read: {}", errno.desc())))
}

impl Found {
    /// The profile now.
    pub fn read(&mut self) -> Result<Reading, String> {
        let mut tries = 0;
        let reading = loop {
            match self.profile.read(&self.memory) {
                // A program that allocates and collects all the time has its pauses.
                Err(ReadError::Restless) if tries < TRIES => tries += 1,
                read => break read.map_err(|error| error.to_string())?,
            }
            std::thread::sleep(PAUSE);
        };
        self.rate = reading.rate;
        Ok(reading)
    }

    /// The profile now, of a program that was read before.
    pub fn read_to_rest(&mut self) -> Result<Option<Reading>, ReadError> {
        for _ in 0..TRIES {
            if let Some(reading) = self.try_read()? {
                return Ok(Some(reading));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(None)
    }

    /// The profile now, unless it changes all the time, or makes no sense just then. The rate is that of the
    /// beginning: what was sampled by it counts as it did.
    pub fn try_read(&mut self) -> Result<Option<Reading>, ReadError> {
        match self.profile.read(&self.memory) {
            Ok(reading) => Ok(Some(Reading { rate: self.rate, ..reading })),
            Err(ReadError::Gone) if self.process.read("statm").is_err() => Err(ReadError::Gone),
            Err(_) => Ok(None),
        }
    }

    /// Its pid.
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// The process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// How rarely it samples, in bytes.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// Its release.
    pub fn release(&self) -> &str {
        &self.go.release.text
    }

    /// How rarely it samples.
    pub fn every(&self) -> String {
        bytes(self.rate)
    }

    /// Switches the profile on, which the program or its linker switched off.
    pub fn switch_on(&mut self, every: u64) -> Result<Switched, String> {
        // Nothing is written where a table of another release says.
        let switched = match Table::of(self.go.release.minor) {
            Some(_) => Switched::on(self.process.pid(), self.profile.rate, every),
            None => Err(format!("heapattach has no table of {}", self.release())),
        };
        switched.map_err(|why| {
            format!(
                "{} keeps no memory profile (runtime.MemProfileRate is 0), and it cannot be switched on: {why}; need \
                 the right to write, or GODEBUG=memprofilerate=524288, or `heapattach heap -p {}` for what is there \
                 now",
                self.release(),
                self.process.pid()
            )
        })
    }

    /// Names of functions, by an address in each.
    pub fn names(&self, addresses: &[u64]) -> Vec<Option<String>> {
        let name = |moment: &Moment<'_>, at| self.go.functions.name(moment, at);
        let named = |moment: &Moment<'_>| addresses.iter().map(|at| name(moment, *at)).collect();
        self.at_moment(named).unwrap_or_else(|| vec![None; addresses.len()])
    }

    /// What the runtime counts, if all of its variables are certain.
    pub fn figures(&self) -> Option<Figures> {
        self.at_moment(|moment| self.go.clone().figures(moment, &|_| None).ok()).flatten()
    }

    /// A reading by the types that the code states; nothing where the runtime is not certain, or the process is gone.
    pub fn types(&self, reading: &Reading) -> Vec<TypeSum> {
        let told = self.at_moment(|moment| {
            let runtime = self.go.runtime(moment, &|_| None).ok()?;
            let types = objects::types(moment, &runtime.layout, &runtime.variables);
            let name = |code| self.go.functions.name(moment, code);
            let range = |code| self.go.functions.range(code);
            let code = Code { name: &name, range: &range };
            let sites = Sites::new(moment, code, &types, self.go.release.minor);
            Some(by_type(reading, &sites))
        });
        let all = told.flatten().unwrap_or_default().into_iter();
        let row = |(class, of): (Option<String>, OfType)| TypeSum {
            class,
            stacks: of.buckets,
            live_blocks: whole(of.live.objects),
            live_bytes: whole(of.live.bytes),
            allocated_blocks: whole(of.allocated.objects),
            allocated_bytes: whole(of.allocated.bytes),
        };
        let mut all: Vec<TypeSum> = all.map(row).collect();
        all.sort_by_key(|row| Reverse((row.live_bytes, row.allocated_bytes)));
        all.truncate(TYPES);
        all
    }

    /// Looks at its memory as it is just then.
    pub fn at_moment<T>(&self, look: impl FnOnce(&Moment<'_>) -> T) -> Option<T> {
        let (regions, live) = (Live::regions(&self.process).ok()?, Live::open(&self.process).ok()?);
        Some(look(&Moment::new(&live, regions, Vec::new())))
    }

    /// Whether nothing is without a name.
    pub fn names_all(&self, code: &heapattach_recording::names::Code) -> bool {
        code.functions.iter().all(|function| function.is_named)
    }
}
