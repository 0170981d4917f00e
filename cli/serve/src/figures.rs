//! Figures that are told beside those of the processes: of what the command does besides.

use std::{fmt, sync::Arc};

/// A figure of several things.
#[derive(Clone, Debug)]
pub struct Figure {
    /// Its name, without `_total`.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Whether it only grows.
    pub is_counter: bool,
    /// The labels of each thing, and its value.
    pub rows: Vec<(Vec<(&'static str, String)>, f64)>,
}

/// Tells them as they are now.
#[derive(Clone)]
pub struct Figures(Arc<dyn Fn() -> Vec<Figure> + Send + Sync>);

impl Figures {
    /// Those that `now` tells.
    pub fn new(now: impl Fn() -> Vec<Figure> + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// As they are now.
    pub fn now(&self) -> Vec<Figure> {
        (self.0)()
    }
}

impl fmt::Debug for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Figures")
    }
}
