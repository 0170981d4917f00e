//! What an agent says of what happens: a line an event, of words or of JSON.

use std::{io::Write, time::SystemTime};

use serde_json::{Map, Value};

use crate::args::LogForm;

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

/// Tells events.
#[derive(Clone, Copy, Debug)]
pub struct Events(pub LogForm);

impl Events {
    /// Tells one: its name, what it is of, and words for people.
    pub fn tell(self, event: &str, of: Value, words: &str) {
        let line = match self.0 {
            LogForm::Plain => format!("heapattach: {words}"),
            LogForm::Json => {
                let mut all = Map::new();
                all.insert("time".to_owned(), now().into());
                all.insert("event".to_owned(), event.into());
                all.insert("told".to_owned(), words.into());
                if let Value::Object(of) = of {
                    all.extend(of);
                }
                Value::Object(all).to_string()
            }
        };
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }
}
