//! `heapattach doctor [-p PID]`: may we attach, what would be done, what would not be seen.

use heapattach_entry::user_hooks::UserHooks;
use heapattach_injector::{
    attach::{self, Forecast, Options, PlannedHook, Way, forecast, foreseen},
    target::{Target, may_suspend_seccomp},
};
use serde::Serialize;

use crate::{
    args::DoctorArgs,
    exit_status::Exit,
    output::{complain, print},
    payload,
};
use heapattach_report::HookedBy;
use heapattach_session::watch::module_name;
use heapattach_symbols::demangle;
use heapattach_text::error_chain::with_causes;
use heapattach_text::quantity;
use heapattach_view::{Colour, Ink, Page};

#[derive(Serialize)]
struct Machine {
    kernel: String,
    user: u32,
    /// Value of kernel.yama.ptrace_scope, if that module is there.
    ptrace_scope: Option<String>,
    can_suspend_seccomp: bool,
}

#[derive(Serialize)]
struct Diagnosis {
    machine: Machine,
    pid: Option<i32>,
    /// Whether attach would be refused, and why.
    refusal: Option<String>,
    functions: Vec<Row>,
    blind: Vec<String>,
    threads: usize,
    /// How long a stop is foreseen to take: what `--max-stop` is compared with.
    stop_ms: f64,
    modules: usize,
    reserved: u64,
    look_ms: f64,
}

#[derive(Serialize)]
struct Row {
    function: String,
    aliases: Vec<String>,
    module: String,
    via: HookedBy,
    why: Option<String>,
    slots: usize,
}

/// Looks, and says what it sees.
pub fn doctor(args: &DoctorArgs) -> Exit {
    let pid = match args.which.pid() {
        Ok(pid) => pid,
        Err(unclear) => {
            complain(&unclear.message);
            return unclear.exit;
        }
    };
    let mut diagnosis = Diagnosis {
        machine: machine(),
        pid,
        refusal: None,
        functions: Vec::new(),
        blind: Vec::new(),
        threads: 0,
        stop_ms: 0.0,
        modules: 0,
        reserved: 0,
        look_ms: 0.0,
    };
    let mut exit = Exit::Done;
    if let Some(pid) = pid {
        match attach::open(pid, false) {
            Ok(target) => exit = examine(&target, args, &mut diagnosis),
            Err(refusal) => {
                exit = if refusal.unsupported { Exit::Unsupported } else { Exit::Refused };
                diagnosis.refusal = Some(refusal.to_string());
            }
        }
    }
    let exit = if args.json {
        print(&serde_json::to_string_pretty(&diagnosis).unwrap_or_default(), exit)
    } else {
        print(show(&diagnosis, Page::for_stream(Colour::Auto, &std::io::stdout())).trim_end(), exit)
    };
    if let Some(refusal) = &diagnosis.refusal {
        complain(&format!("{refusal} (target: untouched)"));
    }
    exit
}

fn examine(target: &Target, args: &DoctorArgs, diagnosis: &mut Diagnosis) -> Exit {
    let options = Options {
        asked: UserHooks::new(args.hook.clone(), demangle::demangle),
        ..Options::sampling(args.hooks.into())
    };
    match forecast(target, payload::image(), &options) {
        Ok(forecast) => {
            fill(target, &forecast, diagnosis);
            Exit::Done
        }
        Err(error) => {
            diagnosis.refusal = Some(with_causes(&error));
            Exit::Unsupported
        }
    }
}

fn fill(target: &Target, forecast: &Forecast, diagnosis: &mut Diagnosis) {
    // What does nothing but call another function has no hook of its own.
    let own = forecast.hooks.iter().filter(|hook| !matches!(hook.way, Way::Within { .. }));
    diagnosis.functions = own.map(|hook| row(target, forecast, hook)).collect();
    diagnosis.threads = forecast.threads;
    diagnosis.stop_ms = foreseen::stop(target).as_secs_f64() * 1e3;
    diagnosis.modules = forecast.modules;
    diagnosis.reserved = forecast.reserved;
    diagnosis.look_ms = forecast.took.as_secs_f64() * 1e3;
    let blind = &mut diagnosis.blind;
    blind.push("blocks that are older than the attach".to_owned());
    blind.push("allocators with functions of their own names (pools, static ones)".to_owned());
    if forecast.unreadable > 0 {
        blind.push(format!("{} modules that cannot be read yet", forecast.unreadable));
    }
    if forecast.sorted.pending > 0 {
        blind.push(format!("{} slots that the loader has not filled yet", forecast.sorted.pending));
    }
    for ((_, function), slots) in &forecast.sorted.foreign {
        let name = &function.name;
        blind.push(format!("{slots} slots for {name} that contain something else"));
    }
}

fn row(target: &Target, forecast: &Forecast, hook: &PlannedHook) -> Row {
    let (via, why) = match &hook.way {
        Way::Entry(_) => (HookedBy::Entry, None),
        Way::Slots { why } => (HookedBy::Slots, (!why.is_empty()).then(|| why.clone())),
        Way::Within { callee } => {
            (HookedBy::Not, Some(format!("it does nothing but call {callee}")))
        }
        Way::Not { why } => (HookedBy::Not, Some(why.clone())),
    };
    Row {
        function: hook.name().to_owned(),
        aliases: hook.names.iter().skip(1).map(|function| function.name.clone()).collect(),
        module: module_name(&target.process, &hook.definer),
        via,
        why,
        slots: forecast.sorted.wanted.iter().filter(|w| w.function == hook.at).count(),
    }
}

fn machine() -> Machine {
    let uname = nix::sys::utsname::uname();
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    Machine {
        kernel: uname.map(|u| u.release().to_string_lossy().into_owned()).unwrap_or_default(),
        user: nix::unistd::geteuid().as_raw(),
        ptrace_scope: scope.ok().map(|text| text.trim().to_owned()),
        can_suspend_seccomp: may_suspend_seccomp(),
    }
}

/// As wide as the terminal, if it is one.
fn show(diagnosis: &Diagnosis, mut page: Page) -> String {
    let machine = &diagnosis.machine;
    let mut tell = |label: &str, text: &str| page.prose(label, Ink::Plain, text);
    tell("KERNEL", &format!("{}; this command runs as user {}", machine.kernel, machine.user));
    let ptrace = match machine.ptrace_scope.as_deref() {
        None | Some("0") => "processes of the same user may be attached to".to_owned(),
        Some(scope) => {
            format!("kernel.yama.ptrace_scope is {scope}; only root, or `heapattach run`")
        }
    };
    tell("PTRACE", &ptrace);
    if !machine.can_suspend_seccomp {
        tell("SECCOMP", "filters cannot be suspended without CAP_SYS_ADMIN");
    }
    match (diagnosis.pid, &diagnosis.refusal) {
        (None, _) => tell("PROCESS", "none was named: heapattach doctor -p PID"),
        (Some(pid), Some(refusal)) => {
            tell("PROCESS", &format!("{pid}: attach would be refused: {refusal}"));
        }
        (Some(pid), None) => show_process(pid, diagnosis, &mut page),
    }
    page.finish()
}

fn show_process(pid: i32, diagnosis: &Diagnosis, page: &mut Page) {
    let mut tell = |label: &str, text: &str| page.prose(label, Ink::Plain, text);
    tell("PROCESS", &format!("{pid}: attach is possible; it would be done like this"));
    for row in &diagnosis.functions {
        let names = std::iter::once(&row.function).chain(&row.aliases).cloned();
        let names = names.collect::<Vec<_>>().join(", ");
        let via = match row.via {
            HookedBy::Slots => format!("{} slots", row.slots),
            via => via.to_string(),
        };
        let why = row.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        tell(&format!("  {via}"), &format!("{names} in {}{why}", row.module));
    }
    let Diagnosis { threads, stop_ms, modules, look_ms, .. } = diagnosis;
    let stop = format!(
        "{threads} threads would be stopped twice, for about {stop_ms:.1} ms each time (compare \
         --max-stop); {modules} modules, examined in {look_ms:.0} ms"
    );
    tell("STOPS", &stop);
    let reserved = quantity::bytes(diagnosis.reserved);
    let room = format!(
        "{reserved} of address space would be reserved, little of it used; a counted call costs some ns"
    );
    tell("COST", &room);
    for (number, blind) in diagnosis.blind.iter().enumerate() {
        tell(if number == 0 { "NOT SEEN" } else { "" }, blind);
    }
}
