//! Loading the payload with the target's own loader, and unloading it.

use std::{iter::repeat_with, thread, time::Duration};

use nix::errno::Errno;

use crate::{
    home::{Home, HomeError},
    loader::{
        errand::{ErrandError, Errands},
        functions::Functions,
    },
    refusal::Refusal,
};
use crate::{
    home::{
        payload_image::{PayloadImage, PayloadImageError},
        vdso,
    },
    hook::{plan::HookMode, survey::Surveyor},
    installation::{
        install::wiring,
        remote_call::{Carrier, CarrierError},
        shared_object::{self, Block, FileError, Object, ObjectFile, Order},
    },
    trace::{
        stopped::{StopCost, StopError, Stopped, choose_carrier},
        target::Target,
    },
};
use heapattach_entry::user_hooks::UserHooks;
use heapattach_process::{
    linker::Rendezvous,
    memory_file::TakeError,
    proc::maps::{self, Mapping},
    told_loader,
};

/// How long a thread may take to come by.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why the target did not load the payload, or still has it.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no file for it.
    #[error(transparent)]
    File(#[from] FileError),
    /// The errand was not run.
    #[error(transparent)]
    Errand(#[from] ErrandError),
    /// The loader says no.
    #[error("dlopen in the target failed: {0}")]
    Open(String),
    /// The loader says no.
    #[error("dlclose in the target failed: {0}")]
    Close(String),
    /// The loader said yes, but nothing is there.
    #[error("the target's loader does not list what it has loaded")]
    NotListed,
    /// The loader said yes, but it is there.
    #[error("the target's loader keeps what it was told to unload")]
    Kept,
    /// The functions are not there.
    #[error("the target's C library has no dlopen, dlclose and dlerror that we can find")]
    NoFunctions,
    /// The memory map cannot be read.
    #[error("the memory map of the target cannot be read")]
    Maps,
    /// The home or the object cannot be written.
    #[error("the target cannot be written")]
    Write(#[source] Errno),
    /// The target cannot be stopped.
    #[error(transparent)]
    Stop(#[from] StopError),
    /// No thread can be borrowed.
    #[error(transparent)]
    Carrier(#[from] CarrierError),
    /// The journal cannot be written.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The payload cannot be lured to.
    #[error(transparent)]
    Image(#[from] PayloadImageError),
}

/// The way around.
pub(crate) const CURE: &str =
    "use `--loader map`, which is the default and needs nothing of the target";

/// Refuses what cannot work, before the target is touched.
///
/// # Errors
/// With what was found, and the way around.
pub(crate) fn check(target: &Target, force: bool) -> Result<Functions, Refusal> {
    let pid = target.process.pid();
    let status = target.process.status().unwrap_or_default();
    if status.seccomp != 0 && !force {
        let value = format!(
            "process {pid} is under seccomp, and a call of its loader's that the filter forbids \
             would kill it"
        );
        let need = "a process that may open and map files";
        let cure = format!("{CURE}, or add --force if its filter allows that");
        return Err(Refusal { value, need: need.to_owned(), cure, unsupported: false });
    }
    let functions = found(target).ok_or_else(|| {
        let value = format!("process {pid} has no dlopen in its C library");
        Refusal::unsupported(value, "a dynamically linked program of glibc 2.34", CURE)
    })?;
    if functions.keeps && !force {
        let value = format!("the C library of process {pid} never unloads what it has loaded");
        let need = "glibc, for the process to be left as it was found";
        let cure = format!("{CURE}, or add --force to leave the object there");
        return Err(Refusal { value, need: need.to_owned(), cure, unsupported: false });
    }
    Ok(functions)
}

/// The functions, if the target has them.
pub(crate) fn found(target: &Target) -> Option<Functions> {
    steady(|| functions(target))
}

/// The same, if the lists show them just now.
fn functions(target: &Target) -> Option<Functions> {
    let survey = Surveyor::new(target, UserHooks::default()).ok()?.look(target).ok()?;
    let text = target.process.read("maps").ok()?;
    Functions::find(target, &survey, &maps::parse(&text).ok()?)
}

/// Looks until something is there: the target goes on, and its loader may be changing the lists
/// that are being walked.
pub(super) fn steady<T>(look: impl Fn() -> Option<T>) -> Option<T> {
    const LOOKS: usize = 20;
    let pause = || thread::sleep(Duration::from_millis(2));
    look().or_else(|| repeat_with(|| (pause(), look()).1).take(LOOKS).flatten().next())
}

/// Has the target load `image`; `home` holds its gate image.
///
/// # Errors
/// When it did not; the home is to be undone then, and knows what was changed.
pub(crate) fn load(
    target: &Target,
    home: &mut Home,
    image: &PayloadImage,
    functions: &Functions,
    mode: HookMode,
    stops: &mut Vec<StopCost>,
) -> Result<Object, LoadError> {
    const RTLD_NOW: u64 = 2;
    let memory = &target.memory;
    if let Some(object) = find(target)?.filter(|object| is_same(target, image, object)) {
        // A loader that never unloads has kept it from the last time.
        wire(target, home, image, &object)?;
        return Ok(object);
    }
    let file = place(target, home, image, stops)?;
    let block = Block::of(memory, home);
    block.set_path(&file.path()).map_err(LoadError::Write)?;
    let order = Order {
        function: functions.open,
        arguments: [block.path().get(), RTLD_NOW, 0, 0, 0],
        descriptor: file.descriptor(),
        error: Some(functions.error),
        errno: functions.errno,
        starts_thread: false,
    };
    let mut errands = Errands::new(target, home, mode)?;
    let outcome = errands.run(functions, &order, PATIENCE);
    stops.append(&mut errands.stops);
    *home = Home::open(memory, home.at())?;
    let outcome = outcome?;
    home.amend(memory, |header| header.descriptor = 0)?;
    if outcome.result == 0 {
        return Err(LoadError::Open(outcome.message));
    }
    let object = find(target)?.ok_or(LoadError::NotListed)?;
    wire(target, home, image, &object)?;
    Ok(object)
}

/// Whether the object is of this very build: the same but for the cells.
fn is_same(target: &Target, image: &PayloadImage, object: &Object) -> bool {
    let at = image.text_in(object.bias());
    let found = target.memory.read_vec(at, image.text().len()).ok();
    let cells = image.control_cell()..image.hooks_and_cells().len();
    let rest = |text: &[u8]| Some([text.get(..cells.start)?, text.get(cells.end..)?].concat());
    found.is_some_and(|found| rest(&found) == rest(image.text()))
}

/// Tells the object where its control page and its tables are.
fn wire(
    target: &Target,
    home: &Home,
    image: &PayloadImage,
    object: &Object,
) -> Result<(), LoadError> {
    let text = image.text_in(object.bias());
    for (cell, value) in wiring(image, home) {
        let at = text.offset(cell as u64);
        target.memory.write_word(at, value.get()).map_err(LoadError::Write)?;
    }
    Ok(())
}

/// Makes the file: in memory if the target can open that, else in a folder.
fn place(
    target: &Target,
    home: &mut Home,
    image: &PayloadImage,
    stops: &mut Vec<StopCost>,
) -> Result<ObjectFile, LoadError> {
    if shared_object::sees_proc(&target.process) {
        let stop = Stopped::all(target)?;
        let made = place_in_memory(&stop, home, image);
        stops.push(stop.finish());
        match made {
            // No descriptor to spare, or no such files on this machine, or none that we could take.
            Err(LoadError::File(
                FileError::Carrier(CarrierError::Refused { .. })
                | FileError::Take(TakeError::Unavailable(_)),
            )) => {}
            other => return other,
        }
    }
    Ok(shared_object::in_folder(&target.process, image.file())?)
}

fn place_in_memory(
    stop: &Stopped<'_>,
    home: &mut Home,
    image: &PayloadImage,
) -> Result<ObjectFile, LoadError> {
    let target = stop.target();
    let memory = &target.memory;
    let gadget = vdso::syscall_gadget(target).map_err(|_| LoadError::Maps)?;
    home.amend(memory, |header| header.descriptor = 1)?;
    let thread = choose_carrier(stop).ok_or(StopError::Gone)?;
    let mut carrier = Carrier::borrow(stop, thread, gadget)?;
    let frame = carrier.rescue_frame(home.frame())?;
    memory.write(home.frame(), &frame).map_err(LoadError::Write)?;
    carrier.rescue(home.gadget(), home)?;
    let block = Block::of(memory, home);
    let made = shared_object::in_memory(&mut carrier, &target.process, &block, image.file());
    carrier.finish()?;
    Ok(made?)
}

/// The object, if the target has it.
fn find(target: &Target) -> Result<Option<Object>, LoadError> {
    let text = target.process.read("maps").map_err(|_| LoadError::Maps)?;
    let maps = maps::parse(&text).map_err(|_| LoadError::Maps)?;
    if !Object::is_mapped(&maps) {
        return Ok(None);
    }
    Ok(steady(|| find_in(target, &maps)))
}

/// The same in maps that are known.
pub(crate) fn find_in(target: &Target, maps: &[Mapping<'_>]) -> Option<Object> {
    // Nearly no target has it: the lists need not be looked for then.
    if !Object::is_mapped(maps) {
        return None;
    }
    let auxv = told_loader::auxv(&target.process).ok()?;
    let lists = Rendezvous::find(&target.memory, &auxv, maps).ok()?;
    Object::find(&target.memory, maps, lists)
}

/// Has the target unload the object, if it has it. No thread may be in its code.
///
/// # Errors
/// When it is still there.
pub(crate) fn close(
    target: &Target,
    home: &Home,
    patience: Duration,
    stops: &mut Vec<StopCost>,
) -> Result<(), LoadError> {
    let text = target.process.read("maps").map_err(|_| LoadError::Maps)?;
    let maps = maps::parse(&text).map_err(|_| LoadError::Maps)?;
    if !Object::is_mapped(&maps) {
        return Ok(());
    }
    let object = steady(|| find_in(target, &maps)).ok_or(LoadError::NotListed)?;
    let functions = found(target).ok_or(LoadError::NoFunctions)?;
    let order = Order {
        function: functions.close,
        arguments: [object.handle.get(), 0, 0, 0, 0],
        descriptor: None,
        error: Some(functions.error),
        errno: functions.errno,
        starts_thread: false,
    };
    let mut errands = Errands::new(target, home, HookMode::Auto)?;
    let outcome = errands.run(&functions, &order, patience);
    stops.append(&mut errands.stops);
    let outcome = outcome?;
    if outcome.result & 0xffff_ffff != 0 {
        return Err(LoadError::Close(outcome.message));
    }
    let text = target.process.read("maps").map_err(|_| LoadError::Maps)?;
    let maps = maps::parse(&text).map_err(|_| LoadError::Maps)?;
    if Object::is_mapped(&maps) { Err(LoadError::Kept) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn lists_that_were_changing_are_looked_at_again_but_not_for_ever() {
        let looks = Cell::new(0);
        let look = |enough: u32| {
            looks.set(looks.get() + 1);
            (looks.get() >= enough).then_some(())
        };
        assert_eq!(steady(|| look(3)), Some(()));
        assert_eq!(looks.replace(0), 3);
        assert_eq!(steady(|| look(u32::MAX)), None);
        assert_eq!(looks.get(), 21);
    }
}
