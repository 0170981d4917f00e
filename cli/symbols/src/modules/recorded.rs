//! Modules as a recording has them.

use super::{MODULES_LIMIT, Modules, PLACES_LIMIT, Place, files_limit};
use crate::{
    known::{Known, Piece},
    module::Module,
};

impl Modules {
    /// Of a recording; names are looked for in the files here.
    pub fn of(known: &[Known]) -> Self {
        let mut modules = Self::default();
        modules.prepare_roots();
        let root = modules.around.roots.first().cloned();
        for one in known.iter().filter(|one| !one.is_python()).take(MODULES_LIMIT) {
            let module = modules.modules.len();
            let may_open = modules.open_files < files_limit();
            modules.modules.push(one.module(root.as_ref().filter(|_| may_open)));
            modules.open_files += u64::from(modules.modules[module].is_open());
            for piece in &one.pieces {
                let place = Place { start: piece.start, file_offset: piece.file_offset, module };
                if modules.places.len() < PLACES_LIMIT {
                    modules.places.insert(piece.start..piece.end, place);
                }
            }
        }
        modules
    }

    /// For a recording.
    pub fn known(&self) -> Vec<Known> {
        let known = |module: &Module| Known {
            path: module.name.to_string(),
            build_id: module.build_id.as_ref().map(ToString::to_string).unwrap_or_default(),
            pieces: Vec::new(),
            python: Vec::new(),
        };
        let mut all: Vec<Known> = self.modules.iter().map(known).collect();
        for (range, place) in self.places.iter() {
            // What is left of a piece that was partly covered begins later.
            let file_offset = place.file_offset.saturating_add(range.start - place.start);
            if let Some(module) = all.get_mut(place.module) {
                module.pieces.push(Piece { start: range.start, end: range.end, file_offset });
            }
        }
        all
    }
}
