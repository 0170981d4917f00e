//! Functions of the runtime that allocate: which of their arguments is a type, and what of that type they allocate.

use super::SiteType;

/// The first release whose `growslice` takes the type as its last argument.
const GROWS_BY_LENGTH: u32 = 20;

/// How such a function tells what it allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tells {
    /// By an argument, of this number, which is the type of a value.
    Value(usize),
    /// The type of a value, or of the elements of an array.
    ValueOrArray(usize),
    /// The type of elements.
    Array(usize),
    /// The type of a map.
    Map(usize),
    /// The type of a channel.
    Chan(usize),
    /// By its name alone.
    Itself(SiteType),
}

impl Tells {
    /// The function with this name, in a minor release.
    pub(super) fn of(name: &str, minor: u32) -> Option<Self> {
        let name = name.strip_prefix("runtime.").unwrap_or(name);
        let grow = if minor < GROWS_BY_LENGTH { 0 } else { 4 };
        Some(match name {
            "newobject" | "convT" | "convTnoptr" => Self::Value(0),
            "newarray" | "makeslice" | "makeslice64" | "makeslicecopy" | "moveSlice"
            | "moveSliceNoCap" => Self::Array(0),
            "growslice" | "growsliceBuf" | "growsliceNoAlias" | "growsliceBufNoAlias" => {
                Self::Array(grow)
            }
            "makemap" | "makemap64" => Self::Map(0),
            "makechan" | "makechan64" => Self::Chan(0),
            "concatstrings" | "concatstring2" | "concatstring3" | "concatstring4"
            | "concatstring5" | "slicebytetostring" | "slicerunetostring" | "intstring"
            | "rawstring" | "rawstringtmp" => Self::Itself(SiteType::Text),
            "concatbytes"
            | "concatbyte2"
            | "concatbyte3"
            | "concatbyte4"
            | "concatbyte5"
            | "stringtoslicebyte"
            | "rawbyteslice"
            | "internal/bytealg.MakeNoZero" => Self::Itself(SiteType::Bytes),
            "stringtoslicerune" | "rawruneslice" => Self::Itself(SiteType::Runes),
            "convTstring" => Self::Itself(SiteType::String),
            "convTslice" => Self::Itself(SiteType::Slice),
            "convT16" | "convT32" | "convT64" => Self::Itself(SiteType::Number),
            _ if name.starts_with("mapassign") => Self::Map(0),
            _ if name.starts_with("mallocgc") => Self::ValueOrArray(1),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_is_the_argument_that_the_release_has_it_as() {
        assert_eq!(Tells::of("runtime.growslice", 19), Some(Tells::Array(0)));
        assert_eq!(Tells::of("runtime.growslice", 21), Some(Tells::Array(4)));
        assert_eq!(Tells::of("runtime.mapassign_faststr", 24), Some(Tells::Map(0)));
        assert_eq!(
            Tells::of("runtime.mallocgcSmallScanNoHeaderSC3", 27),
            Some(Tells::ValueOrArray(1))
        );
        assert_eq!(
            (Tells::of("main.makeslice2", 27), Tells::of("runtime.gopark", 27)),
            (None, None)
        );
    }
}
