//! Debug information that stayed where the program was compiled: `.dwo` files, or all of them in
//! one `.dwp`.
//!
//! What is in the module itself names them, so they are looked for below the roots only, and only
//! one with the right identity is taken.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::dwarf::{endian, is_of_use};
use crate::files::surroundings::Surroundings;
use crate::{
    dwarf::reader::{Meter, Reader},
    files::{
        elf::{Allowance, Elf, Source},
        root::Root,
    },
};
use addr2line::SplitDwarfLoad;
use gimli::{Reader as _, RunTimeEndian};

/// The rest of one module's debug information.
pub struct SplitDwarf {
    package: Option<gimli::DwarfPackage<Reader>>,
    around: Surroundings,
    meter: Arc<Meter>,
}

impl SplitDwarf {
    /// Reads the package beside the module, if there is one.
    pub fn new(around: &Surroundings, endian: RunTimeEndian, meter: &Arc<Meter>) -> Self {
        let mut path = around.path.clone().into_os_string();
        path.push(".dwp");
        let open = |root: &Arc<Root>| Source::new(root.open(Path::new(&path))?);
        let package = around.roots.iter().filter_map(open).find_map(|source| {
            let elf = source.elf()?;
            // All of it, as gimli cuts each unit's share out of each section.
            let load = |id| load(id, &source, &elf, &around.allowance, meter);
            gimli::DwarfPackage::load(load, Reader::new(Vec::new(), endian, Arc::clone(meter))).ok()
        });
        Self { package, around: around.clone(), meter: Arc::clone(meter) }
    }

    /// What a unit of the module asks for.
    pub fn load(&self, wanted: &SplitDwarfLoad<Reader>) -> Option<Arc<gimli::Dwarf<Reader>>> {
        if let Some(package) = &self.package
            && let Ok(Some(unit)) = package.find_cu(wanted.dwo_id, &wanted.parent)
        {
            return Some(Arc::new(unit));
        }
        let roots = &self.around.roots;
        let candidates = self.candidates(wanted)?;
        let places = candidates.iter().flat_map(|path| roots.iter().map(move |r| (r, path)));
        places.filter_map(|(root, path)| Source::new(root.open(path)?)).find_map(|source| {
            let elf = source.elf()?;
            let empty = || Reader::new(Vec::new(), endian(&elf), Arc::clone(&self.meter));
            let load = |id| match is_of_use(id) {
                true => load(id, &source, &elf, &self.around.allowance, &self.meter),
                false => Ok(empty()),
            };
            let mut dwarf = gimli::Dwarf::load(load).ok()?;
            let header = dwarf.units().next().ok()??;
            let unit = dwarf.unit(header).ok()?;
            // It may have been compiled again since.
            if unit.dwo_id != Some(wanted.dwo_id) {
                return None;
            }
            dwarf.make_dwo(&wanted.parent);
            Some(Arc::new(dwarf))
        })
    }

    /// Where it was written, and beside the module, where one who moves both puts it.
    fn candidates(&self, wanted: &SplitDwarfLoad<Reader>) -> Option<[PathBuf; 2]> {
        let name = wanted.path.as_ref()?.to_slice().ok()?;
        let name = Path::new(OsStr::from_bytes(&name));
        let folder = wanted.comp_dir.as_ref().and_then(|folder| folder.to_slice().ok());
        let folder = folder.unwrap_or_default();
        let beside = self.around.path.parent()?.join(name.file_name()?);
        Some([Path::new(OsStr::from_bytes(&folder)).join(name), beside])
    }
}

fn load(
    id: gimli::SectionId,
    source: &Source,
    elf: &Elf<'_>,
    allowance: &Allowance,
    meter: &Arc<Meter>,
) -> gimli::Result<Reader> {
    let name = id.dwo_name();
    let bytes = name.and_then(|name| source.named(elf, name, allowance)).unwrap_or_default();
    meter.provide(bytes.len());
    Ok(Reader::new(bytes, endian(elf), Arc::clone(meter)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crate::Frame;
    use crate::tests::folder::{Folder, Mapped, skip};

    /// Two units with split debug information, linked into `a.so`.
    fn compiled(flags: &str) -> Folder {
        let folder = Folder::new("dwo");
        for name in ["one", "two"] {
            let source = format!(
                "int volatile sink;\nstatic inline __attribute__((always_inline)) void inner_{name}(int a)\n\
                 {{ sink = a; }}\nvoid outer_{name}(int a) {{\nsink = 1;\ninner_{name}(a);\n}}\n"
            );
            let source =
                if name == "two" { source.replacen("int", "extern int", 1) } else { source };
            fs::write(folder.0.join(format!("{name}.c")), source).unwrap();
            folder.run(&format!("gcc -O1 -fPIC -gsplit-dwarf {flags} -c {name}.c"));
        }
        folder.run("gcc -shared -nostdlib -Wl,-z,noseparate-code -o a.so one.o two.o");
        folder
    }

    /// The most calls that any address of the function stands for.
    fn deepest(folder: &Folder, name: &str) -> Vec<Frame> {
        let start = folder.offset_of("a.so", &format!("outer_{name}"));
        let all = (start..start + 16).map(|at| folder.at("a.so", at));
        all.max_by_key(Vec::len).unwrap()
    }

    fn assert_found(folder: &Folder) {
        for name in ["one", "two"] {
            let frames = deepest(folder, name);
            let [inner, outer] = &frames[..] else { panic!("two calls: {frames:?}") };
            assert_eq!(inner.function.as_deref(), Some(&*format!("inner_{name}")));
            assert_eq!(outer.function.as_deref(), Some(&*format!("outer_{name}")));
            assert_eq!((inner.line, outer.line), (Some(3), Some(6)));
        }
    }

    #[test]
    fn units_beside_the_program_are_read() {
        for flags in ["-gdwarf-4", "-gdwarf-5", "-gdwarf-5 -gz=zlib"] {
            let folder = compiled(flags);
            assert_found(&folder);
            fs::remove_file(folder.0.join("two.dwo")).unwrap();
            let [frame] = &deepest(&folder, "two")[..] else { panic!("no inlined calls now") };
            assert_eq!(frame.function.as_deref(), Some("outer_two"));
        }
    }

    #[test]
    fn a_package_stands_for_them() {
        let folder = compiled("-gdwarf-5");
        if !folder.has("llvm-dwp") {
            return skip("no llvm-dwp here", "apt-get install llvm");
        }
        folder.run("llvm-dwp one.dwo two.dwo -o a.so.dwp");
        for name in ["one.dwo", "two.dwo"] {
            fs::remove_file(folder.0.join(name)).unwrap();
        }
        assert_found(&folder);
    }

    #[test]
    fn a_unit_compiled_again_is_not_taken() {
        let folder = compiled("-gdwarf-5");
        let source = fs::read_to_string(folder.0.join("two.c")).unwrap();
        let source = source.replace("inner_two", "other_two").replace("sink = 1", "sink = 1 + a");
        fs::write(folder.0.join("two.c"), source).unwrap();
        folder.run("gcc -O1 -fPIC -gsplit-dwarf -gdwarf-5 -c two.c");
        let [frame] = &deepest(&folder, "two")[..] else { panic!("not of this build") };
        assert_eq!(frame.function.as_deref(), Some("outer_two"));
        assert_eq!(deepest(&folder, "one").len(), 2);
    }

    #[test]
    fn damage_is_survived() {
        let folder = compiled("-gdwarf-5");
        let mut files = vec!["one.dwo"];
        if folder.has("llvm-dwp") {
            folder.run("llvm-dwp one.dwo two.dwo -o a.so.dwp");
            files.push("a.so.dwp");
        } else {
            skip("no llvm-dwp here: only .dwo files are damaged", "apt-get install llvm");
        }
        let start = folder.offset_of("a.so", "outer_one");
        let mut number = 0x9e37_79b9_usize;
        for file in files {
            let path = folder.0.join(file);
            let honest = fs::read(&path).unwrap();
            for round in 0..400 {
                let mut damaged = honest.clone();
                for _ in 0..=round % 8 {
                    number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    let at = (number >> 24) % damaged.len();
                    damaged[at] = number.to_le_bytes()[7];
                }
                damaged.truncate(if round % 10 == 0 {
                    round * 7 % honest.len()
                } else {
                    usize::MAX
                });
                fs::write(&path, damaged).unwrap();
                assert!(!folder.at("a.so", start + 4).is_empty());
            }
        }
    }
}
