//! What the JSON of each command looks like, as JSON Schema (draft 2020-12): files beside this source.

/// A kind of document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schema {
    /// Of a session.
    Report,
    /// Of a check.
    Check,
    /// Of a look at all memory of a process.
    Heap,
    /// Of what became different between moments.
    HeapDiff,
    /// Of what allocators count.
    Allocator,
    /// Of a view of a recording, or of two.
    View,
    /// Of a whole recording.
    Ledger,
    /// Of what is shown live.
    Top,
    /// Of what an agent would do.
    Agent,
}

impl Schema {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Report,
        Self::Check,
        Self::Heap,
        Self::HeapDiff,
        Self::Allocator,
        Self::View,
        Self::Ledger,
        Self::Top,
        Self::Agent,
    ];

    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Check => "check",
            Self::Heap => "heap",
            Self::HeapDiff => "heap-diff",
            Self::Allocator => "allocator",
            Self::View => "view",
            Self::Ledger => "ledger",
            Self::Top => "top",
            Self::Agent => "agent",
        }
    }

    /// Which commands write it.
    pub fn about(self) -> &'static str {
        match self {
            Self::Report => "heapattach -p PID --json, heapattach run --json",
            Self::Check => "heapattach check --json",
            Self::Heap => "heapattach heap --json",
            Self::HeapDiff => "heapattach diff A B --json, of moments",
            Self::Allocator => "heapattach allocator --json",
            Self::View => "heapattach report FILE --json, heapattach diff A B --json",
            Self::Ledger => "heapattach report FILE --format json",
            Self::Top => "heapattach top --json",
            Self::Agent => "heapattach agent --dry-run --json",
        }
    }

    /// The schema.
    pub fn text(self) -> &'static str {
        match self {
            Self::Report => include_str!("../schemas/report.json"),
            Self::Check => include_str!("../schemas/check.json"),
            Self::Heap => include_str!("../schemas/heap.json"),
            Self::HeapDiff => include_str!("../schemas/heap-diff.json"),
            Self::Allocator => include_str!("../schemas/allocator.json"),
            Self::View => include_str!("../schemas/view.json"),
            Self::Ledger => include_str!("../schemas/ledger.json"),
            Self::Top => include_str!("../schemas/top.json"),
            Self::Agent => include_str!("../schemas/agent.json"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_schema_is_json_and_says_of_what() {
        for schema in Schema::ALL {
            let document: Value = serde_json::from_str(schema.text()).unwrap();
            assert_eq!(document["$schema"], "https://json-schema.org/draft/2020-12/schema");
            assert!(document["title"].is_string(), "{}", schema.name());
        }
    }
}
