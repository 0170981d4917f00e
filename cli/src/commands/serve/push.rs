//! `--push`: what the command line says of it, and what is said of it at the end.

use std::{fs, sync::Arc, time::Duration};

use heapattach_export::Names;
use heapattach_files::input;
use heapattach_push::{
    Address, Bounds, Counts, Destination, Effects, IS_BUILT_IN, LONGEST_SECRET, Labels, Pusher,
    Secret, Source, State, Watch, check_labels, not_built_in,
};
use heapattach_serve::{Figure, Figures, Target};

use crate::{args::PushArgs, output::complain};

/// At the end what waits is sent for so long.
const FLUSH: Duration = Duration::from_secs(5);
/// More often nothing is sent.
const SHORTEST: Duration = Duration::from_secs(1);
/// Authorities that are believed take no more.
const LONGEST_PEM: u64 = 4 << 20;

/// Where is sent to.
///
/// # Errors
/// What is wrong with it, before anything is begun.
pub fn destinations(args: &PushArgs) -> Result<Vec<Destination>, String> {
    can_send(!args.push.is_empty(), IS_BUILT_IN)?;
    if args.push.is_empty() {
        return Ok(Vec::new());
    }
    if args.push_every < SHORTEST {
        return Err("--push-every needs 1s or more".to_owned());
    }
    check_labels(&args.label)?;
    let tokens = args.push_token_file.len();
    if ![0, args.push.len()].contains(&tokens) {
        // One that opens a backend is not shown to another.
        let why =
            format!("{tokens} --push-token-file for {} --push: need one for each", args.push.len());
        return Err(why);
    }
    let is_tenant = |tenant: &String| {
        (1..=150).contains(&tenant.len()) && tenant.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if !args.tenant.as_ref().is_none_or(is_tenant) {
        return Err("--tenant needs up to 150 letters, digits and signs".to_owned());
    }
    let authorities = args.push_ca.as_deref().map(|path| input::text(path, LONGEST_PEM));
    let authorities = authorities.transpose()?.map(String::into_bytes);
    let bounds = Bounds { bytes: args.push_queue, age: args.push_age };
    let mut all = Vec::new();
    for (at, url) in args.push.iter().enumerate() {
        let address = Address::parse(url).map_err(|why| format!("--push: {why}"))?;
        if Names::from(args.symbols) == Names::ByServer && !address.backend.names_code() {
            return Err(format!(
                "--symbols server: {address} is {}, which shows addresses without names as they are; need parca+ or \
                 otlp+, or --symbols own",
                address.backend.name()
            ));
        }
        let secret = args.push_token_file.get(at).map(|path| {
            let text = input::text(path, LONGEST_SECRET)?;
            let secret = Secret::of(&text).map_err(|why| format!("{}: {why}", path.display()))?;
            Ok::<_, String>((path.clone(), secret))
        });
        let secret = secret.transpose()?;
        if secret.is_some() && !address.is_secret && !address.is_local() {
            complain(&format!(
                "warning: the token for {address} is sent without TLS: others can read it on the way"
            ));
        }
        let (tenant, authorities) = (args.tenant.clone(), authorities.clone());
        let destination = Destination { address, secret, tenant, authorities, bounds };
        destination.check()?;
        all.push(destination);
    }
    Ok(all)
}

/// A build that cannot send refuses before anything else is looked at.
fn can_send(is_wanted: bool, is_built_in: bool) -> Result<(), String> {
    match is_built_in || !is_wanted {
        true => Ok(()),
        false => Err(format!("{} (targets: untouched)", not_built_in())),
    }
}

/// Sends from now on.
///
/// # Errors
/// If that cannot be begun.
pub fn start(
    args: &PushArgs,
    destinations: Vec<Destination>,
    targets: &[Arc<Target>],
) -> Result<Option<Pusher>, String> {
    if destinations.is_empty() {
        return Ok(None);
    }
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let source = |target: &Arc<Target>| {
        let labels = Labels::new(&target.name, target.pid, host.trim(), &args.label);
        let target = target.clone();
        let read = move |is_last| if is_last { target.last_ledger() } else { target.ledger() };
        Source { labels, read: Box::new(read), names: args.symbols.into() }
    };
    let effects = Effects {
        say: Arc::new(complain),
        read: Arc::new(|path| input::text(path, LONGEST_SECRET)),
    };
    let sources = targets.iter().map(source).collect();
    Pusher::start(sources, destinations, args.push_every, &effects).map(Some)
}

/// What became of what was made, for Prometheus.
pub fn figures(pusher: &Pusher) -> Figures {
    let watch = pusher.watch();
    Figures::new(move || all_figures(&watch.states()))
}

fn all_figures(states: &[State]) -> Vec<Figure> {
    let figure = |name, about, is_counter, value: fn(&State) -> Option<f64>| Figure {
        name,
        about,
        is_counter,
        rows: states
            .iter()
            .filter_map(|state| Some((vec![("to", state.to.clone())], value(state)?)))
            .collect(),
    };
    let dropped = states.iter().flat_map(|state| {
        let Counts { refused, aged, displaced, .. } = state.counts;
        let reasons = [("refused", refused), ("aged", aged), ("displaced", displaced)];
        reasons.map(|(reason, number)| {
            (vec![("to", state.to.clone()), ("reason", reason.to_owned())], whole(number))
        })
    });
    let about = "Requests to a backend that were dropped: refused by it, too old, or to make room";
    let dropped = Figure {
        name: "heapattach_push_dropped",
        about,
        is_counter: true,
        rows: dropped.collect(),
    };
    vec![
        figure("heapattach_push_made", "Requests to a backend that were made", true, |state| {
            Some(whole(state.counts.made))
        }),
        figure("heapattach_push_sent", "Requests that the backend took", true, |state| {
            Some(whole(state.counts.sent))
        }),
        dropped,
        figure(
            "heapattach_push_retried",
            "Attempts beyond the first of a request",
            true,
            |state| Some(whole(state.counts.retried)),
        ),
        figure("heapattach_push_queued", "Requests that wait, or are being sent", false, |state| {
            Some(whole(state.counts.queued))
        }),
        figure("heapattach_push_queued_bytes", "The bytes of these", false, |state| {
            Some(whole(state.counts.queued_bytes))
        }),
        figure(
            "heapattach_push_clock_ahead_seconds",
            "By how much the clock of the backend is ahead of this machine's",
            false,
            #[allow(clippy::cast_precision_loss)]
            |state| state.ahead.map(|ahead| ahead as f64),
        ),
    ]
}

#[allow(clippy::cast_precision_loss)]
fn whole(number: u64) -> f64 {
    number as f64
}

/// Sends what waits, and says what became of all.
pub fn end(sent: &Watch) {
    sent.flush(FLUSH);
    for State { to, counts, .. } in sent.states() {
        let dropped = match counts.dropped() {
            0 => "dropped 0".to_owned(),
            all => format!(
                "dropped {all} ({} refused, {} too old, {} to make room)",
                counts.refused, counts.aged, counts.displaced
            ),
        };
        let queued = match counts.queued {
            0 => "queued 0".to_owned(),
            queued => format!("queued {queued}, not sent"),
        };
        complain(&format!(
            "push to {to}: made {}, sent {}, {dropped}, {queued}; attempts again: {}",
            counts.made, counts.sent, counts.retried
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_cannot_send_refuses_by_name_and_says_what_can() {
        let told = can_send(true, false).unwrap_err();
        for part in ["without the feature `push`", "release", "(targets: untouched)"] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(can_send(false, false).is_ok() && can_send(true, true).is_ok());
    }

    #[test]
    fn the_figures_of_a_backend_add_up() {
        let counts = Counts {
            made: 10,
            sent: 3,
            refused: 1,
            aged: 2,
            displaced: 3,
            queued: 1,
            ..Counts::default()
        };
        assert!(counts.adds_up());
        let figures = all_figures(&[State { to: "a".to_owned(), counts, ahead: None }]);
        let sum = |name: &str| {
            let figure = figures.iter().find(|figure| figure.name == name).unwrap();
            figure.rows.iter().map(|(_, value)| value).sum::<f64>()
        };
        let rest = sum("heapattach_push_sent")
            + sum("heapattach_push_dropped")
            + sum("heapattach_push_queued");
        assert!((sum("heapattach_push_made") - rest).abs() < 0.1);
        let ahead = figures.iter().find(|figure| figure.name.contains("clock")).unwrap();
        assert!(ahead.rows.is_empty(), "nothing is known of a clock that is not told");
    }
}
