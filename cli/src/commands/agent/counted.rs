//! What the allocators of a process counted when it was looked at last, by the names that they have for it themselves.

use heapattach_agent::Key;
use serde_json::{Value, json};

/// More are no honest allocator's.
const MOST_NUMBERS: usize = 64;
const MOST_ALLOCATORS: usize = 8;

/// Of one process.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// Its number,
    pub pid: i32,
    /// and name.
    pub name: String,
    /// Its allocators.
    pub allocators: Vec<Numbers>,
}

/// Of one allocator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    /// Its name,
    pub allocator: String,
    /// and the module that it is in.
    pub module: String,
    /// By name.
    pub numbers: Vec<(String, f64)>,
}

impl Counted {
    /// Out of what `heapattach allocator --json` prints.
    pub fn of(key: Key, name: &str, found: &Value) -> Self {
        let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
        let allocators = found["allocators"].as_array().into_iter().flatten().take(MOST_ALLOCATORS);
        let allocators = allocators.map(|one| {
            let numbers = one["stats"].as_object().into_iter().flatten();
            let numbers = numbers.filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)));
            Numbers {
                allocator: text(&one["allocator"]),
                module: text(&one["module"]),
                numbers: numbers.take(MOST_NUMBERS).collect(),
            }
        });
        Self { pid: key.pid, name: name.to_owned(), allocators: allocators.collect() }
    }

    /// For people.
    pub fn told(&self) -> String {
        let names =
            self.allocators.iter().map(|one| format!("{} in {}", one.allocator, one.module));
        match self.allocators.is_empty() {
            true => "none that is known".to_owned(),
            false => names.collect::<Vec<_>>().join(", "),
        }
    }

    /// For programs.
    pub fn data(&self) -> Value {
        let one = |of: &Numbers| {
            let stats: serde_json::Map<_, _> =
                of.numbers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            json!({ "allocator": of.allocator, "module": of.module, "stats": stats })
        };
        self.allocators.iter().map(one).collect()
    }

    /// As rows of a figure.
    pub fn rows(&self) -> impl Iterator<Item = (Vec<(&'static str, String)>, f64)> {
        self.allocators.iter().flat_map(move |one| {
            one.numbers.iter().map(move |(stat, value)| {
                let labels = vec![
                    ("pid", self.pid.to_string()),
                    ("service", self.name.clone()),
                    ("allocator", one.allocator.clone()),
                    ("module", one.module.clone()),
                    ("stat", stat.clone()),
                ];
                (labels, *value)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_document_and_anything_else_is_survived() {
        let key = Key { pid: 7, start: 1 };
        let found = json!({ "allocators": [
            { "allocator": "glibc", "module": "libc.so.6", "stats": { "arena": 132, "bad": "x" } },
        ]});
        let counted = Counted::of(key, "web", &found);
        assert_eq!(counted.told(), "glibc in libc.so.6");
        let rows: Vec<_> = counted.rows().collect();
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].1, &rows[0].0[4]), (132.0, &("stat", "arena".to_owned())));
        for odd in [json!(null), json!({ "allocators": 3 }), json!({ "allocators": [1, null] })] {
            let counted = Counted::of(key, "web", &odd);
            assert_eq!(counted.rows().count(), 0);
        }
    }
}
