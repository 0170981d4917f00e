//! What is loaded in the target just now, read while it runs. Modules are read once and
//! remembered; one that cannot be read yet is tried again with the next look.

use std::{collections::HashMap, sync::Arc};

use nix::errno::Errno;

use crate::module::{
    self, Definition, Module, known_symbols::KnownSymbols, symbol_file::SymbolFile, tables::Budget,
};
use crate::trace::target::Target;
use heapattach_entry::{functions::FunctionRef, user_hooks::UserHooks};
use heapattach_process::cache::Cache;
use heapattach_process::{
    addr::RemoteAddr,
    linker::{Link, LinkError, LoaderName, Rendezvous, static_program},
    memory::Memory,
    proc::maps::{self, Mapping, MapsError},
    told_loader,
};

/// More words than this are not looked at: modules behind it count as unreadable.
const SLOT_LIMIT: usize = 1 << 18;

/// The same for functions: each is compared with every other.
const DEFINITION_LIMIT: usize = 1 << 12;

/// Why there is nothing to see.
#[derive(Debug, thiserror::Error)]
pub enum SurveyError {
    /// The kernel does not tell.
    #[error("the process's {what} cannot be read")]
    Proc {
        /// Which file.
        what: &'static str,
        /// What the kernel said.
        #[source]
        source: Errno,
    },
    /// The memory map is none.
    #[error(transparent)]
    Maps(#[from] MapsError),
    /// The loader's lists cannot be read.
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// One loaded module.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// As the loader lists it.
    pub link: Link,
    /// What it means to us.
    pub module: Arc<Module>,
}

impl Loaded {
    /// Whether it is still the one that was looked at.
    pub(crate) fn is_there(&self, memory: &Memory) -> bool {
        module::identity_at(memory, self.link.dynamic).ok() == Some(self.module.identity)
    }
}

/// Everything loaded.
#[derive(Debug, Default)]
pub struct Survey {
    /// All modules that could be read, in the loader's order.
    pub loaded: Vec<Loaded>,
    /// Modules listed but not readable yet.
    pub unreadable: usize,
}

impl Survey {
    /// Every definition of `function`, with the module's index.
    pub fn definitions(&self, function: FunctionRef) -> impl Iterator<Item = (usize, &Definition)> {
        self.loaded.iter().enumerate().flat_map(move |(index, loaded)| {
            let found = loaded.module.definitions.iter().filter(move |d| d.function == function);
            found.map(move |definition| (index, definition))
        })
    }

    /// What the loader would bind `function` to in this namespace: the first definition.
    pub fn first_definition(&self, function: FunctionRef, namespace: usize) -> Option<RemoteAddr> {
        let mut all = self.definitions(function).filter(|(_, d)| d.is_dynamic);
        all.find(|(i, _)| self.loaded[*i].link.namespace == namespace).map(|(_, d)| d.at)
    }

    /// The namespaces in use.
    pub fn namespaces(&self) -> impl Iterator<Item = usize> {
        self.loaded.iter().filter(|l| l.link.first).map(|l| l.link.namespace)
    }

    /// Whether `at` is a PLT entry that stands for `function` everywhere.
    pub fn is_canonical(&self, function: FunctionRef, at: RemoteAddr) -> bool {
        self.loaded.iter().any(|l| l.module.canonical.contains(&(function, at)))
    }
}

/// Who knows what is loaded.
#[derive(Clone, Debug)]
enum Lists {
    /// The dynamic loader.
    Loader(Rendezvous),
    /// None, since it is this program and nothing else.
    Static(Link),
}

/// Takes surveys.
#[derive(Clone, Debug)]
pub struct Surveyor {
    lists: Lists,
    loader_name: Option<LoaderName>,
    asked: UserHooks,
    /// Forked children have the same until one of them loads something.
    known: Arc<HashMap<Link, Arc<Module>>>,
    /// Where what was found in files is kept.
    cache: Option<Arc<Cache>>,
}

impl Surveyor {
    /// Finds the loader's lists, or that there are none.
    ///
    /// # Errors
    /// For programs that are too young.
    pub fn new(target: &Target, asked: UserHooks) -> Result<Self, SurveyError> {
        let proc = |what| move |source| SurveyError::Proc { what, source };
        let auxv = told_loader::auxv(&target.process).map_err(proc("auxv"))?;
        let text = target.process.read("maps").map_err(proc("maps"))?;
        let maps = maps::parse(&text)?;
        let lists = match Rendezvous::find(&target.memory, &auxv, &maps) {
            Err(LinkError::Static) => Lists::Static(static_program(&target.memory, &auxv, &maps)?),
            lists => Lists::Loader(lists?),
        };
        let loader_name = LoaderName::read(&target.memory, &auxv, &maps);
        Ok(Self { lists, loader_name, asked, known: Arc::default(), cache: None })
    }

    /// Keeps what it finds in files in this cache, for other processes.
    #[must_use]
    pub fn kept_in(self, cache: Option<Cache>) -> Self {
        Self { cache: cache.map(Arc::new), ..self }
    }

    /// Whether the program is linked statically.
    pub fn is_static(&self) -> bool {
        matches!(self.lists, Lists::Static(_))
    }

    /// The loader's lists, if there are any.
    pub fn lists(&self) -> Option<Rendezvous> {
        match self.lists {
            Lists::Loader(lists) => Some(lists),
            Lists::Static(_) => None,
        }
    }

    /// Looks around.
    ///
    /// # Errors
    /// When the lists cannot be walked just now.
    pub fn look(&mut self, target: &Target) -> Result<Survey, SurveyError> {
        let links = match &self.lists {
            Lists::Loader(lists) => {
                lists.modules_given(&target.memory, self.loader_name.as_ref())?
            }
            Lists::Static(link) => vec![link.clone()],
        };
        // Most looks find nothing new; to list the mappings takes longer than the rest.
        let is_news = links.iter().any(|link| !self.known.contains_key(link));
        let text =
            if is_news { target.process.read("maps").unwrap_or_default() } else { Vec::new() };
        let maps = maps::parse(&text)?;
        let mut budget = Budget::default();
        let mut survey = Survey::default();
        // What is gone is forgotten: another module may come to the same place.
        let has_changed = is_news || links.len() != self.known.len();
        let mut seen = has_changed.then(|| HashMap::with_capacity(links.len()));
        let (mut slots, mut definitions) = (0, 0);
        for link in links {
            let module = match self.known.get(&link) {
                Some(module) => Arc::clone(module),
                None => match self.read(target, &maps, &link, &mut budget) {
                    Ok(module) => Arc::new(module),
                    Err(_) => {
                        survey.unreadable += 1;
                        continue;
                    }
                },
            };
            if let Some(seen) = &mut seen {
                seen.insert(link.clone(), Arc::clone(&module));
            }
            slots += module.slots.len();
            definitions += module.definitions.len();
            if slots > SLOT_LIMIT || definitions > DEFINITION_LIMIT {
                survey.unreadable += 1;
                continue;
            }
            survey.loaded.push(Loaded { link, module });
        }
        if let Some(seen) = seen {
            self.known = Arc::new(seen);
        }
        Ok(survey)
    }

    /// Reads one module, of its memory and its file.
    fn read(
        &self,
        target: &Target,
        maps: &[Mapping<'_>],
        link: &Link,
        budget: &mut Budget,
    ) -> Result<Module, Errno> {
        let mut module = match self.lists {
            Lists::Loader(_) => Module::read(&target.memory, link, self.asked, budget)?,
            Lists::Static(_) => Module::without_tables(&target.memory, link)?,
        };
        let mapping = first_mapping_of(maps, link);
        let (process, memory) = (&target.process, &target.memory);
        let (bias, is_program) = (link.bias(), link.is_executable());
        if self.asked.functions().is_empty() {
            let from = (self.cache.as_deref(), budget);
            let known =
                mapping.and_then(|m| SymbolFile::known(process, memory, m, is_program, from));
            let known = known.iter().flat_map(KnownSymbols::functions);
            module.add_symbols(known, bias, self.asked, is_program);
        } else {
            // Any symbol could be one that the user means.
            let all = mapping.and_then(|m| SymbolFile::find(process, memory, m, true, budget));
            let all = all.iter().flat_map(SymbolFile::functions);
            module.add_symbols(all, bias, self.asked, is_program);
        }
        if link.is_executable() {
            for (function, at, size) in self.asked.places() {
                let at = link.bias().place(at);
                let (indirect, is_dynamic) = (false, false);
                module.add(Definition { function, at, indirect, size, is_dynamic });
            }
        }
        Ok(module)
    }

    /// Names in the modules of `survey` that look like `name`.
    pub fn near(&self, target: &Target, survey: &Survey, name: &str) -> Vec<String> {
        let text = target.process.read("maps").unwrap_or_default();
        let maps = maps::parse(&text).unwrap_or_default();
        let mut budget = Budget::default();
        let files = survey.loaded.iter().filter_map(|loaded| {
            let mapping = first_mapping_of(&maps, &loaded.link)?;
            SymbolFile::find(&target.process, &target.memory, mapping, true, &mut budget)
        });
        let files: Vec<SymbolFile> = files.collect();
        let names = files.iter().flat_map(SymbolFile::functions).map(|symbol| symbol.name);
        self.asked.near(name, names)
    }
}

/// The first mapping of a module's file: that of its ELF header.
pub fn first_mapping_of<'m, 'a>(maps: &'m [Mapping<'a>], link: &Link) -> Option<&'m Mapping<'a>> {
    let some = mapping_of(maps, link).filter(|mapping| mapping.inode != 0)?;
    let same = |m: &&Mapping<'_>| (m.inode, m.device) == (some.inode, some.device);
    let before = maps.iter().filter(|m| m.file_offset == 0 && m.range.start <= some.range.start);
    before.rev().find(same)
}

/// The file behind a module, by the mapping its dynamic section lies in.
pub fn mapping_of<'m, 'a>(maps: &'m [Mapping<'a>], link: &Link) -> Option<&'m Mapping<'a>> {
    maps::covering(maps, link.dynamic)
}
