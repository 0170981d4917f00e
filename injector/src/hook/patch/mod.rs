//! Changing the target's words and text, with everything stopped: each change is noted in the
//! journal before it is made, and made only where memory still holds what was planned for.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use heapattach_abi::kind::HookKind;
use nix::errno::Errno;

use crate::{
    home::{Change, ChangeKind, Home, HomeError, ModuleRecord},
    module,
};
use crate::{
    home::{payload_image::PayloadImage, stub_page::StubPage},
    hook::{
        plan::{HookMode, PlannedHook, Way, differs_from_file, out_of_reach, settle},
        slots::{Sorted, sort},
        survey::Survey,
    },
    trace::stopped::Stopped,
};
use heapattach_entry::TooFar;
use heapattach_process::{addr::RemoteAddr, linker::Link, proc::maps::Mapping};

mod entries;

/// A function with a hook of its own.
#[derive(Clone, Debug)]
pub struct ActiveHook {
    /// Which function, and which way it is hooked.
    pub planned: PlannedHook,
    /// Which of the payload's hooks it has; `None` if it is not hooked.
    pub number: Option<usize>,
    /// How many slots lead to it.
    pub slots: usize,
}

/// The payload's hooks that valgrind's client requests are told to (`crate::hook::requests`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHooks {
    /// A block came.
    pub allocated: usize,
    /// A block goes.
    pub freed: usize,
    /// The thread's next block is in this pool.
    pub pool: usize,
    /// All blocks of this pool go.
    pub destroyed: usize,
    /// A check is to be made, here and now.
    pub checked: usize,
    /// Of the pool that the thread named, what is in this range stays.
    pub trimmed: usize,
    /// The pool that the thread named has this name from here on.
    pub moved: usize,
}

/// Whether client requests are heard.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// By which hooks.
    pub hooks: Option<RequestHooks>,
    /// How many.
    pub sites: usize,
    /// Why none are, if there are some.
    pub why_not: Option<String>,
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum PatchError {
    /// The journal or the home cannot be written.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The target cannot be written.
    #[error("the target cannot be written at {at}")]
    Write {
        /// Where.
        at: RemoteAddr,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
    /// A jump does not reach.
    #[error(transparent)]
    TooFar(#[from] TooFar),
}

/// What the session has changed in the target.
#[derive(Clone, Debug)]
pub struct Patches {
    /// Our home.
    pub home: Home,
    /// Where the hooks lie: in our home, or in an object of their own.
    pub body: RemoteAddr,
    /// The stub page in use.
    pub stubs: Option<StubPage>,
    /// Every function considered.
    pub hooks: Vec<ActiveHook>,
    /// Client requests.
    pub heard: Heard,
    mode: HookMode,
    modules: HashMap<Link, u64>,
    /// Shared with the sessions of forked children until one of them notes more.
    noted: Arc<HashSet<(RemoteAddr, [u8; 8], u64)>>,
    used: HashMap<HookKind, usize>,
}

impl Patches {
    /// Nothing changed yet. `stubs` is the page a former session left, if there is one.
    pub fn new(home: Home, stubs: Option<StubPage>, mode: HookMode) -> Self {
        Self {
            body: home.body(),
            home,
            stubs,
            mode,
            hooks: Vec::new(),
            heard: Heard::default(),
            modules: HashMap::new(),
            noted: Arc::default(),
            used: HashMap::new(),
        }
    }

    /// Whether `at` is considered already.
    pub fn knows(&self, at: RemoteAddr) -> bool {
        self.hooks.iter().any(|hook| hook.planned.at == at)
    }

    /// Whether the function at `at` is hooked by its slots.
    pub fn by_slots(&self, at: RemoteAddr) -> bool {
        self.hooks.iter().any(|hook| {
            hook.planned.at == at
                && hook.number.is_some()
                && matches!(hook.planned.way, Way::Slots { .. })
        })
    }

    /// Whether each call is hooked by which the target may lose pages, or the right to read them, but for those that
    /// no C library makes for a program.
    pub fn sees_pages_go(&self) -> bool {
        let is_hooked = |hook: &ActiveHook| {
            hook.number.is_some()
                && matches!(hook.planned.way, Way::Entry(_))
                && hook.planned.definer.name.ends_with(b"/libc.so.6")
        };
        ["mmap", "munmap", "mremap", "brk", "mprotect"].iter().all(|name| {
            let is_one = |hook: &&ActiveHook| hook.planned.names.iter().any(|f| f.name == *name);
            let mut all = self.hooks.iter().filter(is_one).peekable();
            all.peek().is_some() && all.all(is_hooked)
        })
    }

    /// Whether any function is hooked by its slots.
    pub fn any_by_slots(&self) -> bool {
        let by_slots =
            |h: &ActiveHook| h.number.is_some() && matches!(h.planned.way, Way::Slots { .. });
        self.hooks.iter().any(by_slots)
    }

    /// The same hooks, but entries that our code is out of reach of are left to the slots.
    pub fn within_reach(&self, mut hooks: Vec<PlannedHook>) -> Vec<PlannedHook> {
        let code = self.home.at().min(self.body)..self.home.end().max(self.body);
        for hook in hooks.iter_mut().filter(|hook| matches!(hook.way, Way::Entry(_))) {
            out_of_reach(hook, &code, self.mode);
        }
        hooks
    }

    /// Hooks these functions at their entries, or gives their modules' slots to [`Self::lead`].
    ///
    /// # Errors
    /// When the target cannot be written; what was changed by then is in the journal.
    pub fn add(
        &mut self,
        stop: &Stopped<'_>,
        maps: &[Mapping<'_>],
        image: &PayloadImage,
        hooks: Vec<PlannedHook>,
    ) -> Result<(), PatchError> {
        let first = self.hooks.len();
        let mut hooks = hooks;
        for planned in &mut hooks {
            self.check_entry(stop, maps, planned);
        }
        settle(&mut hooks);
        for mut planned in hooks {
            let kind = planned.kind().0;
            let number = self.take_number(image, kind, &mut planned.way);
            self.hooks.push(ActiveHook { planned, number, slots: 0 });
        }
        let trampolines = self.trampolines(stop, first);
        let memory = &stop.target().memory;
        let write = |at, bytes: &[u8]| {
            memory.write(at, bytes).map_err(|source| PatchError::Write { at, source })
        };
        for index in first..self.hooks.len() {
            let Some(number) = self.hooks[index].number else { continue };
            let mut original = self.hooks[index].planned.at;
            if let Some(code) = trampolines.get(&index) {
                original = self.home.trampoline(number);
                write(original, code)?;
            }
            let cell = image.orig_cell(number).unwrap_or(0) as u64;
            write(self.body.offset(cell), &original.get().to_le_bytes())?;
            let cell = image.second_cell(number).unwrap_or(0) as u64;
            let second = self.second(index);
            write(self.body.offset(cell), &second.to_le_bytes())?;
            for (cell, asked) in
                image.size_cells(number).into_iter().flatten().zip(self.sizers(index))
            {
                write(self.body.offset(cell as u64), &asked.to_le_bytes())?;
            }
        }
        let changes = self.entry_changes(stop, image, first)?;
        self.apply(stop, &changes)
    }

    /// A free hook of the right kind.
    fn take_number(
        &mut self,
        image: &PayloadImage,
        kind: HookKind,
        way: &mut Way,
    ) -> Option<usize> {
        if matches!(way, Way::Not { .. } | Way::Within { .. }) {
            return None;
        }
        let number = self.number_for(image, kind);
        if number.is_none() {
            *way = Way::Not { why: "the payload has no free hook left".to_owned() };
        }
        number
    }

    /// The same for what is no function of the target's.
    pub(in crate::hook) fn number_for(
        &mut self,
        image: &PayloadImage,
        kind: HookKind,
    ) -> Option<usize> {
        let used = self.used.entry(kind).or_default();
        let number = image.hooks_of(kind).nth(*used);
        *used += usize::from(number.is_some());
        number
    }

    /// Turns an entry to slots if another tool has patched it since it was planned.
    fn check_entry(&self, stop: &Stopped<'_>, maps: &[Mapping<'_>], planned: &mut PlannedHook) {
        if let Way::Entry(parts) = &planned.way
            && let Some(why) = differs_from_file(stop.target(), maps, parts)
        {
            planned.leave_entry(why, self.mode);
        }
    }

    /// Leads every slot that is bound to a function hooked by slots to that function's stub.
    ///
    /// # Errors
    /// When the target cannot be written; what was changed by then is in the journal.
    pub fn lead(
        &mut self,
        stop: &Stopped<'_>,
        maps: &[Mapping<'_>],
        image: &PayloadImage,
        survey: &Survey,
    ) -> Result<Sorted, PatchError> {
        if !self.any_by_slots() {
            return Ok(Sorted::default());
        }
        let target = stop.target();
        let sorted =
            sort(target, survey, maps, self.stubs.as_ref(), |function| self.by_slots(function));
        let mut changes = Vec::new();
        for wanted in &sorted.wanted {
            let loaded = &survey.loaded[wanted.module];
            // Another module may have come to the place meanwhile.
            let now = module::identity_at(&target.memory, loaded.link.dynamic);
            if now != Ok(loaded.module.identity) {
                continue;
            }
            let Some(stub) = self.stub(stop, image, wanted.function)? else { continue };
            let module = self.module_index(stop, &loaded.link)?;
            let at = wanted.slot.at;
            let old = target.memory.word(at).map_err(|source| PatchError::Write { at, source })?;
            let (old, new) = (old.to_le_bytes(), stub.get().to_le_bytes());
            changes.push(change(at, &old, &new, ChangeKind::Slot, module));
            if let Some(hook) = self.hooks.iter_mut().find(|h| h.planned.at == wanted.function) {
                hook.slots += 1;
            }
        }
        self.apply(stop, &changes)?;
        Ok(sorted)
    }

    /// Where calls of a function lead that has this hook.
    fn hook_at(&self, image: &PayloadImage, planned: &PlannedHook, number: usize) -> RemoteAddr {
        let at = match planned.keeps_registers() {
            true => image.hook_offset(number),
            false => image.brief_offset(number),
        };
        self.body.offset(at.unwrap_or(0) as u64)
    }

    /// The stub for a function, leading to its hook.
    fn stub(
        &mut self,
        stop: &Stopped<'_>,
        image: &PayloadImage,
        function: RemoteAddr,
    ) -> Result<Option<RemoteAddr>, PatchError> {
        let memory = &stop.target().memory;
        let page = self.home.stub_page();
        let write = |source| PatchError::Write { at: page, source };
        if self.stubs.is_none() {
            self.stubs = Some(StubPage::create(memory, page).map_err(write)?);
        }
        let hooked = self.hooks.iter().find(|hook| hook.planned.at == function);
        let hook = hooked.and_then(|hook| Some(self.hook_at(image, &hook.planned, hook.number?)));
        let (Some(stubs), Some(hook)) = (&mut self.stubs, hook) else { return Ok(None) };
        if self.home.header().stubs == 0 {
            let at = stubs.at().get();
            self.home.amend(memory, |header| header.stubs = at)?;
        }
        match stubs.stub_for(memory, function) {
            Ok(stub) => {
                stubs.lead(memory, function, hook).map_err(write)?;
                Ok(Some(stub))
            }
            Err(Errno::ENOSPC) => Ok(None),
            Err(source) => Err(write(source)),
        }
    }

    /// The page with what stands in for functions of LeakSanitizer; `None` if there is no room. `unmap` and
    /// `errno` are what it calls.
    pub(in crate::hook) fn provide(
        &mut self,
        stop: &Stopped<'_>,
        image: &PayloadImage,
        [unmap, errno]: [RemoteAddr; 2],
    ) -> Result<Option<StubPage>, PatchError> {
        let memory = &stop.target().memory;
        let at = self.home.stub_page();
        let write = |source| PatchError::Write { at, source };
        // Where functions are hooked by slots alone, only their stubs are seen.
        let unmap = match self.by_slots(unmap) {
            true => self.stub(stop, image, unmap)?.unwrap_or(unmap),
            false => unmap,
        };
        if self.stubs.is_none() {
            self.stubs = Some(StubPage::create(memory, at).map_err(write)?);
        }
        let Some(stubs) = &self.stubs else { return Ok(None) };
        if self.home.header().stubs == 0 {
            let at = stubs.at().get();
            self.home.amend(memory, |header| header.stubs = at)?;
        }
        match stubs.provide(memory, [unmap, errno]) {
            Ok(()) => Ok(Some(stubs.clone())),
            Err(Errno::EEXIST) => Ok(None),
            Err(source) => Err(write(source)),
        }
    }

    pub(in crate::hook) fn module_index(
        &mut self,
        stop: &Stopped<'_>,
        link: &Link,
    ) -> Result<u64, PatchError> {
        if let Some(&index) = self.modules.get(link) {
            return Ok(index);
        }
        let memory = &stop.target().memory;
        let identity = module::identity_at(memory, link.dynamic)
            .map_err(|source| PatchError::Write { at: link.dynamic, source })?;
        let record = ModuleRecord { base: link.base, dynamic: link.dynamic, identity };
        let index = self.home.note_modules(memory, &[record])?;
        self.modules.insert(link.clone(), index);
        Ok(index)
    }

    /// Notes, then writes.
    fn apply(&mut self, stop: &Stopped<'_>, changes: &[Change]) -> Result<(), PatchError> {
        let memory = &stop.target().memory;
        // A module that comes and goes at one place fills the journal only once.
        let fresh: Vec<Change> = changes
            .iter()
            .filter(|c| !self.noted.contains(&(c.at, c.old, c.module)))
            .copied()
            .collect();
        self.home.note_changes(memory, &fresh)?;
        if !fresh.is_empty() {
            let noted = Arc::make_mut(&mut self.noted);
            noted.extend(fresh.iter().map(|c| (c.at, c.old, c.module)));
        }
        for change in changes {
            memory
                .write(change.at, &change.new[..change.length])
                .map_err(|source| PatchError::Write { at: change.at, source })?;
        }
        Ok(())
    }
}

pub(in crate::hook) fn change(
    at: RemoteAddr,
    old: &[u8],
    new: &[u8],
    kind: ChangeKind,
    module: u64,
) -> Change {
    let padded = |bytes: &[u8]| {
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        all
    };
    Change { at, old: padded(old), new: padded(new), length: old.len().min(8), kind, module }
}
