//! What is loaded in the target just now, read while it runs. Modules are read once and
//! remembered; one that cannot be read yet is tried again with the next look.

use std::{collections::HashMap, rc::Rc};

use nix::errno::Errno;

use crate::{
    addr::RemoteAddr,
    asked::Asked,
    functions::FunctionRef,
    linker::{Link, LinkError, Rendezvous, static_program},
    module::{Definition, Module},
    proc::maps::{self, Mapping, MapsError},
    symbol_file::SymbolFile,
    tables::Budget,
    target::Target,
};

/// More words than this are not looked at: modules behind it count as unreadable.
const SLOT_LIMIT: usize = 1 << 18;

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
    pub module: Rc<Module>,
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
    /// Nobody, since it is this program and nothing else.
    Static(Link),
}

/// Takes surveys.
#[derive(Debug)]
pub struct Surveyor {
    lists: Lists,
    asked: Asked,
    known: HashMap<Link, Rc<Module>>,
}

impl Surveyor {
    /// Finds the loader's lists, or that there are none.
    ///
    /// # Errors
    /// For programs that are too young.
    pub fn new(target: &Target, asked: Asked) -> Result<Self, SurveyError> {
        let proc = |what| move |source| SurveyError::Proc { what, source };
        let auxv = target.process.auxv().map_err(proc("auxv"))?;
        let text = target.process.read("maps").map_err(proc("maps"))?;
        let maps = maps::parse(&text)?;
        let lists = match Rendezvous::find(&target.memory, &auxv, &maps) {
            Err(LinkError::Static) => Lists::Static(static_program(&target.memory, &auxv, &maps)?),
            lists => Lists::Loader(lists?),
        };
        Ok(Self { lists, asked, known: HashMap::new() })
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
            Lists::Loader(lists) => lists.modules(&target.memory)?,
            Lists::Static(link) => vec![link.clone()],
        };
        let text = target.process.read("maps").unwrap_or_default();
        let maps = maps::parse(&text)?;
        let mut budget = Budget::default();
        let mut survey = Survey::default();
        let mut seen = HashMap::with_capacity(links.len());
        let mut slots = 0;
        for link in links {
            let module = match self.known.remove(&link) {
                Some(module) => module,
                None => match self.read(target, &maps, &link, &mut budget) {
                    Ok(module) => Rc::new(module),
                    Err(_) => {
                        survey.unreadable += 1;
                        continue;
                    }
                },
            };
            seen.insert(link.clone(), Rc::clone(&module));
            slots += module.slots.len();
            if slots > SLOT_LIMIT {
                survey.unreadable += 1;
                continue;
            }
            survey.loaded.push(Loaded { link, module });
        }
        // What is gone is forgotten: another module may come to the same place.
        self.known = seen;
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
        let symbols = first_mapping_of(maps, link).and_then(|mapping| {
            let far = link.is_executable() || !self.asked.functions().is_empty();
            SymbolFile::find(&target.process, &target.memory, mapping, far, budget)
        });
        if let Some(symbols) = symbols {
            module.add_symbols(&symbols, link.bias(), self.asked, link.is_executable());
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
