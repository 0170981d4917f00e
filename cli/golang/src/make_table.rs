//! Makes the table of a release from a program that was built with it and not stripped.

use std::{cell::RefCell, collections::BTreeMap, fmt::Write, fs::File, io};

use object::{
    Object, ObjectSection, ObjectSymbol,
    read::{ReadCache, elf::ElfFile64},
};

use crate::{
    arch::leads_out,
    dwarf,
    figures::FigureFields,
    graph::layout::{Field, Layout},
};

/// Variables of the runtime that are of interest.
const VARIABLES: [&str; 15] = [
    "runtime.mheap_",
    "runtime.allgs",
    "runtime.allfin",
    "runtime.gcCleanups",
    "runtime.mbuckets",
    "runtime.MemProfileRate",
    "runtime.mProfCycle",
    "runtime.memstats",
    "runtime.gcController",
    "runtime.work",
    "runtime.sched",
    "runtime.allp",
    "runtime.allm",
    "runtime.gomaxprocs",
    "runtime.gcphase",
];
/// Voters for each.
const VOTERS: usize = 12;

/// The table of a program: `open` opens it.
///
/// # Errors
/// When the program lacks debug data or symbols.
pub fn make_table(open: &dyn Fn() -> io::Result<File>, minor: u32) -> io::Result<String> {
    let lacks = |what: &str| io::Error::other(format!("the program has no {what}"));
    let mut text = String::new();
    let fields = fields(open()?, minor).ok_or_else(|| lacks("debug data"))?;
    for (name, (at, size)) in fields {
        let _ = writeln!(text, "field {name} {at} {size}");
    }
    let cache = ReadCache::new(open()?);
    let elf: ElfFile64<'_, object::Endianness, _> =
        ElfFile64::parse(&cache).map_err(io::Error::other)?;
    for line in references(&elf).ok_or_else(|| lacks("symbols"))? {
        let _ = writeln!(text, "refers {line}");
    }
    Ok(text)
}

/// The fields that the layout asks for.
fn fields(file: File, minor: u32) -> Option<BTreeMap<String, (u64, u64)>> {
    let asked = RefCell::new(Vec::new());
    let ask = |name: &str| {
        asked.borrow_mut().push(name.to_owned());
        Some(Field::default())
    };
    Layout::of(minor, &ask).ok()?;
    FigureFields::by(minor, &ask).ok()?;
    // It has two names.
    let other = |name: &String| name.replace("finblock", "finBlock");
    let mut asked = asked.into_inner();
    asked.extend(asked.iter().map(other).collect::<Vec<_>>());
    let structure = |name: &String| {
        let mut parts = name.splitn(3, '.');
        Some(format!("{}.{}", parts.next()?, parts.next()?))
    };
    let structures: Vec<String> = asked.iter().filter_map(structure).collect();
    let names: Vec<&str> = structures.iter().map(String::as_str).collect();
    let mut all = dwarf::fields(file, &names).filter(|all| !all.is_empty())?;
    all.retain(|name, _| asked.contains(name));
    Some(all)
}

/// Functions that refer to variables: those that do it early say it in more builds.
fn references<'f>(elf: &impl Object<'f>) -> Option<Vec<String>> {
    let mut symbols: Vec<(u64, u64, String)> = elf
        .symbols()
        .filter_map(|symbol| {
            Some((symbol.address(), symbol.size(), symbol.name().ok()?.to_owned()))
        })
        .collect();
    symbols.sort();
    let at = |name: &str| symbols.iter().find(|symbol| symbol.2 == name).map(|symbol| symbol.0);
    let text = at("runtime.text")?..at("runtime.etext")?;
    let variables: Vec<_> =
        symbols.iter().filter(|symbol| VARIABLES.contains(&symbol.2.as_str())).collect();
    let section = elf.section_by_name(".text")?;
    let mut found: BTreeMap<&str, Vec<(usize, String)>> = BTreeMap::new();
    for (start, size, name) in &symbols {
        let twice = symbols.iter().filter(|symbol| symbol.2 == *name).count() > 1;
        if !name.starts_with("runtime.") || name.contains(' ') || !text.contains(start) || twice {
            continue;
        }
        let Some(code) = section.data_range(*start, *size).ok().flatten() else { continue };
        let mut once = Vec::new();
        for (ordinal, target) in leads_out(code, *start, &text).into_iter().enumerate() {
            let is_in =
                |one: &&&(u64, u64, String)| (one.0..one.0 + one.1.max(1)).contains(&target);
            if let Some((base, _, variable)) = variables.iter().find(is_in)
                && !once.contains(variable)
            {
                once.push(variable.clone());
                let line = format!("{variable} {name} {ordinal} {}", target - base);
                found.entry(variable).or_default().push((ordinal, line));
            }
        }
    }
    let chosen = found.into_values().flat_map(|mut lines| {
        lines.sort();
        lines.truncate(VOTERS);
        lines.into_iter().map(|(_, line)| line)
    });
    Some(chosen.collect())
}
