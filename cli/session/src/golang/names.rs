//! Names of a Go program's code: of its debug data, and where there is none, those that its runtime has.

use heapattach_recording::names::Code;
use heapattach_symbols::Symbols;

use super::Found;
use crate::watch::names;

/// The code at these addresses.
pub fn look_up(symbols: &mut Symbols, addresses: Vec<u64>, found: &Found) -> Code {
    let known = symbols.known();
    let code = names::look_up(symbols, addresses, |_| true);
    let mut code = code.unwrap_or_else(|| Code::without_names(&known));
    let unnamed: Vec<(usize, u64)> = code
        .locations
        .iter()
        .flat_map(|location| {
            location.lines.iter().map(|line| (line.function as usize, location.address))
        })
        .filter(|(function, _)| code.functions.get(*function).is_some_and(|one| !one.is_named))
        .collect();
    let calls: Vec<u64> = unnamed.iter().map(|(_, at)| at.saturating_sub(1)).collect();
    for ((function, _), name) in unnamed.into_iter().zip(found.names(&calls)) {
        if let (Some(function), Some(name)) = (code.functions.get_mut(function), name) {
            function.name = name;
            function.is_named = true;
        }
    }
    code
}
