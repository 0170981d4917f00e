//! What is loaded in the target just now, read while it runs. Modules are read once and
//! remembered; one that cannot be read yet is tried again with the next look.

use std::{collections::HashMap, rc::Rc};

use nix::errno::Errno;

use crate::{
    addr::RemoteAddr,
    functions::FunctionId,
    linker::{Link, LinkError, Rendezvous},
    module::{Definition, Module},
    proc::maps::{self, Mapping, MapsError},
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
    pub fn definitions(&self, function: FunctionId) -> impl Iterator<Item = (usize, &Definition)> {
        self.loaded.iter().enumerate().flat_map(move |(index, loaded)| {
            let found = loaded.module.definitions.iter().filter(move |d| d.function == function);
            found.map(move |definition| (index, definition))
        })
    }

    /// What the loader would bind `function` to in this namespace: the first definition.
    pub fn first_definition(&self, function: FunctionId, namespace: usize) -> Option<RemoteAddr> {
        let mut all = self.definitions(function);
        all.find(|(i, _)| self.loaded[*i].link.namespace == namespace).map(|(_, d)| d.at)
    }

    /// The namespaces in use.
    pub fn namespaces(&self) -> impl Iterator<Item = usize> {
        self.loaded.iter().filter(|l| l.link.first).map(|l| l.link.namespace)
    }

    /// Whether `at` is a PLT entry that stands for `function` everywhere.
    pub fn is_canonical(&self, function: FunctionId, at: RemoteAddr) -> bool {
        self.loaded.iter().any(|l| l.module.canonical.contains(&(function, at)))
    }
}

/// Takes surveys.
#[derive(Debug)]
pub struct Surveyor {
    rendezvous: Rendezvous,
    known: HashMap<Link, Rc<Module>>,
}

impl Surveyor {
    /// Finds the loader's lists.
    ///
    /// # Errors
    /// For static programs and those too young.
    pub fn new(target: &Target) -> Result<Self, SurveyError> {
        let proc = |what| move |source| SurveyError::Proc { what, source };
        let auxv = target.process.auxv().map_err(proc("auxv"))?;
        let text = target.process.read("maps").map_err(proc("maps"))?;
        let maps = maps::parse(&text)?;
        let rendezvous = Rendezvous::find(&target.memory, &auxv, &maps)?;
        Ok(Self::at(rendezvous))
    }

    /// With lists found by somebody else.
    pub fn at(rendezvous: Rendezvous) -> Self {
        Self { rendezvous, known: HashMap::new() }
    }

    /// The lists themselves.
    pub fn lists(&self) -> Rendezvous {
        self.rendezvous
    }

    /// Looks around.
    ///
    /// # Errors
    /// When the lists cannot be walked just now.
    pub fn look(&mut self, target: &Target) -> Result<Survey, SurveyError> {
        let links = self.rendezvous.modules(&target.memory)?;
        let mut budget = Budget::default();
        let mut survey = Survey::default();
        let mut seen = HashMap::with_capacity(links.len());
        let mut slots = 0;
        for link in links {
            let module = match self.known.remove(&link) {
                Some(module) => module,
                None => match Module::read(&target.memory, &link, &mut budget) {
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
}

/// The file behind a module, by the mapping its dynamic section lies in.
pub fn mapping_of<'m, 'a>(maps: &'m [Mapping<'a>], link: &Link) -> Option<&'m Mapping<'a>> {
    maps::covering(maps, link.dynamic)
}
