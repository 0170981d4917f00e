//! valgrind's client requests in a module: those that a jump to code of ours can stand in for, since no code
//! leads into the middle of one.

use heapattach_process::addr::ImageAddr;

use crate::{
    ImageError,
    arch::{machine::MACHINE, request, scan::scan},
    function_ranges::FunctionRanges,
    image::Image,
    zones::Zones,
};

/// The requests of one module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Where each begins that can be stood in for.
    pub sites: Vec<ImageAddr>,
    /// How many there are besides: in no known function, or entered in their middle, perhaps.
    pub refused: usize,
}

/// What a request is, byte for byte.
pub const REQUEST_BYTES: [u8; request::REQUEST.len()] = request::REQUEST;

/// Finds them in a module's file.
///
/// # Errors
/// For a file that is no module.
pub fn requests(file: &[u8]) -> Result<Requests, ImageError> {
    let image = Image::parse(file, &MACHINE)?;
    let found: Vec<u64> = image
        .code()
        .flat_map(|part| request::all_in(part.bytes).into_iter().map(move |at| part.at + at as u64))
        .collect();
    let Some(insides) = (!found.is_empty()).then(|| insides(&found)) else {
        return Ok(Requests::default());
    };
    // Bytes that look like a branch are as bad as one: there are few of both.
    let Some(hits) = scan(&image, &insides) else {
        return Ok(Requests { refused: found.len(), ..Requests::default() });
    };
    let mut entered: Vec<u64> = hits.iter().map(|hit| hit.target).collect();
    image.relocations(|relocation| {
        if insides.contains(relocation.leads_to) {
            entered.push(relocation.leads_to);
        }
    });
    let functions = FunctionRanges::new(&image, &[]);
    let is_sound = |&at: &u64| {
        let inside = at + 1..at + REQUEST_BYTES.len() as u64;
        let Some(function) = functions.containing(at).filter(|f| f.end >= inside.end) else {
            return false;
        };
        let length = usize::try_from(function.end - function.start).unwrap_or(usize::MAX);
        let code = image.code_from(function.start).and_then(|code| code.get(..length));
        !entered.iter().any(|target| inside.contains(target))
            && !functions.exports_any_of(&inside)
            && code.is_some_and(|code| request::is_whole(code, function.start, at))
    };
    let (sound, refused): (Vec<u64>, Vec<u64>) = found.iter().copied().partition(is_sound);
    let sites = sound.into_iter().map(ImageAddr::new).collect();
    Ok(Requests { sites, refused: refused.len() })
}

/// What must not be entered.
fn insides(found: &[u64]) -> Zones {
    Zones::new(found.iter().map(|at| at + 1..at + REQUEST_BYTES.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CODE, DATA, Model, at, branch};

    /// `nop`s, a request, and a `ret`.
    fn function(before: usize) -> Vec<u8> {
        [&vec![0x90; before][..], &REQUEST_BYTES, b"\xc3"].concat()
    }

    fn told(model: &Model) -> (Vec<ImageAddr>, usize) {
        let Requests { sites, refused } = requests(&model.build()).unwrap();
        (sites, refused)
    }

    #[test]
    fn requests_in_functions_are_found() {
        let model = Model::default().exports(0x100, &function(5)).function(0x200, &function(0));
        assert_eq!(told(&model), (vec![at(0x105), at(0x200)], 0));
        assert_eq!(told(&Model::default().exports(0x100, b"\xc3")), (vec![], 0));
    }

    #[test]
    fn what_may_be_entered_in_its_middle_is_refused() {
        let model = || Model::default().exports(0x100, &function(5));
        // Another function jumps there; a word leads there; a short branch of its own does.
        let far = model().code(0x200, &branch(b"\xe9", 0x200, 0x109));
        assert_eq!(told(&far), (vec![], 1));
        assert_eq!(told(&model().points(DATA, CODE + 0x118 - 1)), (vec![], 1));
        let start = model().code(0x200, &branch(b"\xe9", 0x200, 0x105)).points(DATA, CODE + 0x105);
        assert_eq!(told(&start), (vec![at(0x105)], 0), "its first byte may be entered");
        let near = [b"\xeb\x07", &function(5)[..]].concat();
        assert_eq!(told(&Model::default().exports(0x100, &near)), (vec![], 1));
    }

    #[test]
    fn what_is_no_instruction_of_a_known_function_is_refused() {
        assert_eq!(told(&Model::default().code(0x100, &function(0))), (vec![], 1));
        // mov $0x...c148, %eax ends in the middle of the first instruction.
        let hidden = [b"\xb8\x00\x00", &function(0)[..]].concat();
        assert_eq!(told(&Model::default().exports(0x100, &hidden)), (vec![], 1));
        let cut = Model::default().exports(0x100, &REQUEST_BYTES[..18]).code(0x112, b"\xdb");
        assert_eq!(told(&cut), (vec![], 1), "it ends behind the function");
    }
}
