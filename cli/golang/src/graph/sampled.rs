//! Objects of the runtime's sampled profile: which code allocated each, beside what it is and what holds it.

use std::collections::{BTreeMap, HashMap};

use heapattach_census::Moment;

use super::{heap::Object, objects::Objects, paths::Paths, roots::Sampled, site::Sites};

/// Objects that one function allocated, of one type, and held by one path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Joined {
    /// Samples.
    pub samples: u64,
    /// For so many objects they stand, and so many bytes.
    pub objects: f64,
    /// See `objects`.
    pub bytes: f64,
}

/// By the function that allocated, the type, and the root and first field of the path.
pub type ByAll = BTreeMap<(String, Option<String>, Vec<String>), Joined>;

/// Labels of a path that tell samples apart.
const TOLD: usize = 4;

/// Which code allocated it.
#[derive(Clone, Debug, Default)]
struct Site {
    /// The function.
    function: Option<String>,
    /// The type, as far as the code states it.
    class: Option<String>,
}

/// Joins them; `interval` is the mean of bytes between samples. The type of an object is what memory tells, or else
/// what the code states that allocated it.
pub fn join(
    moment: &Moment<'_>,
    objects: &Objects<'_, '_>,
    paths: &Paths,
    interval: u64,
    function: &dyn Fn(u64) -> Option<String>,
    code: &Sites<'_, '_>,
) -> ByAll {
    let mut sites: HashMap<u64, Site> = HashMap::new();
    let mut all = ByAll::new();
    for sampled in &objects.roots.sampled {
        let Sampled { object, bucket } = sampled;
        let look = || allocated_by(moment, sampled, function, code).unwrap_or_default();
        let site = sites.entry(*bucket).or_insert_with(look);
        let (Some(by), Some(node)) = (&site.function, paths.node_of(*object)) else { continue };
        let path = paths.labels_of(node).into_iter().take(TOLD).map(str::to_owned).collect();
        let class = objects.name(*object).or_else(|| site.class.clone());
        let row = all.entry((by.clone(), class, path)).or_default();
        let size = size(objects, *object);
        let weight = weight(size, interval);
        row.samples += 1;
        row.objects += weight;
        row.bytes += weight * size;
    }
    all
}

fn size(objects: &Objects<'_, '_>, object: Object) -> f64 {
    // Sizes are far below what a float can tell.
    objects.heap.span_of(object).size as f64
}

/// An object of a size is sampled with this probability; so many does a sample stand for.
fn weight(size: f64, interval: u64) -> f64 {
    match interval {
        0 | 1 => 1.0,
        interval => 1.0 / (1.0 - (-size / interval as f64).exp()),
    }
}

/// The innermost function of a sample's stack that is not the runtime's, and what that allocates.
fn allocated_by(
    moment: &Moment<'_>,
    sampled: &Sampled,
    function: &dyn Fn(u64) -> Option<String>,
    code: &Sites<'_, '_>,
) -> Option<Site> {
    let (size, stack) = sampled.size_and_stack(moment)?;
    let mut names = stack.iter().filter_map(|code| function(code.checked_sub(1)?));
    let function = names.find(|name| !name.starts_with("runtime."));
    let class = code.allocates(&stack, size).and_then(|of| code.name(of));
    Some(Site { function, class })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_object_stands_for_many_and_a_large_one_for_itself() {
        assert!((weight(16.0, 524_288) - 32_768.5).abs() < 1.0);
        assert!((weight(64e6, 524_288) - 1.0).abs() < 1e-9);
        assert!((weight(16.0, 1) - 1.0).abs() < 1e-9 && (weight(16.0, 0) - 1.0).abs() < 1e-9);
    }
}
