//! A Go program in a process, and what can be read of it: its figures, its profile, its objects.

use std::collections::HashMap;

use heapattach_census::{Image, Moment};

use crate::{
    figures::{FigureFields, Figures, Places},
    find::{FindError, Found, Functions, Named, Release, bias, certain, vote},
    graph::{
        layout::{Layout, Variables},
        walker::Runtime,
    },
    profile::Profile,
    tables::Table,
};

/// A Go program, or a Go library in another program.
#[derive(Clone, Debug)]
pub struct Go {
    /// Its release.
    pub release: Release,
    /// Its functions.
    pub functions: Functions,
    /// Where it lies.
    pub image: Image,
    /// What addresses of its file are shifted by.
    pub bias: u64,
}

impl Go {
    /// Looks for it.
    ///
    /// # Errors
    /// When it is there, and its functions cannot be read. `None` where there is no Go.
    pub fn find(moment: &Moment<'_>) -> Option<Result<Self, FindError>> {
        let (release, image) = moment
            .images()
            .iter()
            .find_map(|image| Some((Release::of(moment, image)?, image.clone())))?;
        let Some(functions) = Functions::find(moment, &image) else {
            return Some(Err(FindError::Functions(release.text)));
        };
        let bias = bias(moment, &image);
        Some(Ok(Self { release, functions, image, bias }))
    }

    /// The profile that the runtime keeps. Where the program has debug data, variables are where that says.
    ///
    /// # Errors
    /// When there is no table for the release, nor an older one, or a variable is not certain.
    pub fn profile(&self, moment: &Moment<'_>, named: Named<'_>) -> Result<Profile, FindError> {
        let minor = self.release.minor;
        let table = Table::of(minor).or_else(|| Table::before(minor)).ok_or_else(|| {
            FindError::Release(self.release.text.clone(), Table::known().to_owned())
        })?;
        let votes = self.variables(moment, &table);
        let certain = |name: &'static str| certain(&votes, named, name);
        Ok(Profile::new(minor, certain("runtime.mbuckets")?, certain("runtime.MemProfileRate")?))
    }

    /// Where the variables are that this table names, by the votes of the runtime's functions.
    pub fn variables(&self, moment: &Moment<'_>, table: &Table) -> HashMap<String, Found> {
        let mut found = vote(moment, &self.functions, table);
        // What most agree on is none where no variables are.
        let is_data = |at: u64| self.image.data.iter().any(|range| range.contains(&at));
        found.retain(|_, found| is_data(found.at));
        found
    }

    /// What the runtime counts. Where the program has debug data, variables are where that says.
    ///
    /// # Errors
    /// When there is no table for the release, or a variable is not certain.
    pub fn figures(self, moment: &Moment<'_>, named: Named<'_>) -> Result<Figures, FindError> {
        let minor = self.release.minor;
        let table = Table::of(minor).ok_or_else(|| {
            FindError::Release(self.release.text.clone(), Table::known().to_owned())
        })?;
        let find = |name: &str| table.field(name);
        let (fields, layout) = (FigureFields::by(minor, &find)?, Layout::of(minor, &find)?);
        let votes = self.variables(moment, &table);
        let certain = |name: &'static str| certain(&votes, named, name);
        let places = Places {
            controller: certain("runtime.gcController")?,
            memstats: certain("runtime.memstats")?,
            mheap: certain("runtime.mheap_")?,
            allgs: certain("runtime.allgs")?,
            work: certain("runtime.work").ok(),
            gomaxprocs: certain("runtime.gomaxprocs").ok(),
            profile_rate: certain("runtime.MemProfileRate").ok(),
        };
        let module = self.image.path.clone();
        Ok(Figures::new(self.release, module, fields, layout, self.functions, places))
    }

    /// What the object graph needs to know of the runtime. Where the program has debug data, variables are
    /// where that says.
    ///
    /// # Errors
    /// When there is no table for the release, or a variable is not certain.
    pub fn runtime(&self, moment: &Moment<'_>, named: Named<'_>) -> Result<Runtime, FindError> {
        let minor = self.release.minor;
        let table = Table::of(minor).ok_or_else(|| {
            FindError::Release(self.release.text.clone(), Table::known().to_owned())
        })?;
        let layout = Layout::of(minor, &|name| table.field(name))?;
        let votes = self.variables(moment, &table);
        let certain = |name: &'static str| certain(&votes, named, name);
        let variables = Variables {
            mheap: certain("runtime.mheap_")?,
            allgs: certain("runtime.allgs")?,
            module: self.functions.module,
            profile_rate: certain("runtime.MemProfileRate").ok(),
            allfin: certain("runtime.allfin").ok(),
            cleanups: certain("runtime.gcCleanups")
                .ok()
                .zip(layout.special.cleanup_list)
                .map(|(at, field)| field.place(at)),
        };
        Ok(Runtime { version: self.release.text.clone(), layout, variables })
    }
}
