//! An error and what led to it, on one line.

/// An error with everything that led to it.
///
/// ```
/// use heapattach_text::error_chain::with_causes;
///
/// let error = std::io::Error::other("no room");
/// assert_eq!(with_causes(&error), "no room");
/// ```
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
