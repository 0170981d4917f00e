//! Whether a call that starts a thread may be made in a process at all, whichever of its threads comes to the gate: by
//! whose `pthread_create`, and whether the program counts on having one thread.

use super::{functions::is_c_library, load::steady};
use crate::{
    hook::survey::Surveyor, module::find_symbols, refusal::Refusal, trace::target::Target,
};
use heapattach_entry::user_hooks::UserHooks;
use heapattach_process::linker::Link;

const CREATE: &[u8] = b"pthread_create";
const CURE: &str = "set it for the next start of the program";

/// Refuses what is not certain.
///
/// # Errors
/// With what was found.
pub fn check(target: &Target) -> Result<(), Refusal> {
    let pid = target.process.pid();
    let refused = |value: String, need: &str| {
        let (need, cure) = (need.to_owned(), CURE.to_owned());
        Refusal { value, need, cure, unsupported: false }
    };
    if target.process.threads().unwrap_or_default().len() < 2 {
        let value = match target.process.is_forked() {
            Some(false) => format!("process {pid} has one thread, and may count on that"),
            // What other threads had locked in its parent stays so.
            _ => format!(
                "process {pid} is a fork with one thread: locks that it was born with may never be released"
            ),
        };
        return Err(refused(value, "a process that starts threads by itself"));
    }
    let found = steady(|| {
        let survey = Surveyor::new(target, UserHooks::default()).ok()?.look(target).ok()?;
        let own = survey.loaded.iter().map(|loaded| &loaded.link);
        let defines = |link: &Link| {
            let found = find_symbols(&target.memory, link, &[CREATE]).ok()?;
            Some(found.first().is_some_and(Option::is_some))
        };
        let own = own.filter(|link| link.namespace == 0);
        own.map(|link| Some((link.name.clone(), defines(link)?))).collect::<Option<Vec<_>>>()
    });
    let Some(found) = found else {
        let value = format!("the modules of process {pid} cannot be read");
        return Err(refused(value, "to know whose pthread_create is called"));
    };
    let defining: Vec<_> = found.into_iter().filter(|(_, defines)| *defines).collect();
    let other = defining.iter().find(|(name, _)| !is_c_library(name));
    if let Some((name, _)) = other {
        let name = match &name[..] {
            b"" => "the program itself".to_owned(),
            name => String::from_utf8_lossy(name).escape_debug().to_string(),
        };
        let value = format!("{name} has a pthread_create of its own, whose locks are not known");
        return Err(refused(value, "that of the C library alone"));
    }
    let is_glibc = |name: &[u8]| !name.windows(4).any(|part| part == b"musl");
    if defining.is_empty() || !defining.iter().all(|(name, _)| is_glibc(name)) {
        let value = format!("no pthread_create of glibc was found in process {pid}");
        return Err(refused(value, "that of glibc"));
    }
    Ok(())
}
