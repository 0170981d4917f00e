//! The views of `report`: those of recordings, and those of moments. Some names are of both.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use heapattach_view::{HeapView, View};

/// A view of a recording, of a moment, or of either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportView {
    /// Of a recording.
    recording: Option<View>,
    /// Of a moment.
    moment: Option<HeapView>,
}

impl ReportView {
    /// Reads one by its name.
    pub fn parser(about: fn(View) -> &'static str) -> impl TypedValueParser<Value = Self> {
        let mut values: Vec<PossibleValue> = View::ALL
            .into_iter()
            .map(|view| PossibleValue::new(view.name()).help(about(view)))
            .collect();
        let only_of_moments =
            HeapView::ALL.into_iter().filter(|view| of_recording(view.name()).is_none());
        values.extend(only_of_moments.map(|view| {
            PossibleValue::new(view.name()).help(format!("A moment: {}", view.about()))
        }));
        PossibleValuesParser::new(values).map(|typed| Self::named(&typed))
    }

    fn named(name: &str) -> Self {
        let moment = HeapView::ALL.into_iter().find(|view| view.name() == name);
        Self { recording: of_recording(name), moment }
    }

    /// As that of a recording.
    ///
    /// # Errors
    /// It is one of moments only.
    pub fn of_recording(self) -> Result<View, String> {
        let name = self.moment.map_or("", HeapView::name);
        self.recording
            .ok_or_else(|| format!("`{name}` is a view of moments, and this is a recording"))
    }

    /// As that of a moment.
    ///
    /// # Errors
    /// It is one of recordings only.
    pub fn of_moment(self) -> Result<HeapView, String> {
        let name = self.recording.map_or("", View::name);
        self.moment.ok_or_else(|| {
            let all = HeapView::ALL.map(HeapView::name).join(", ");
            format!("`{name}` is a view of recordings, and this is a moment; use {all}")
        })
    }
}

fn of_recording(name: &str) -> Option<View> {
    View::ALL.into_iter().find(|view| view.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_can_be_of_both_and_the_other_kind_is_refused() {
        let both = ReportView::named("summary");
        assert_eq!(both.of_recording(), Ok(View::Summary));
        assert_eq!(both.of_moment(), Ok(HeapView::Summary));
        assert!(ReportView::named("holders").of_recording().is_err());
        let refused = ReportView::named("sites").of_moment().unwrap_err();
        assert!(refused.contains("`sites` is a view of recordings"), "{refused}");
    }
}
