//! A call as it is told, of a symbol that was found.

use heapattach_ledger::FrameReport;
use heapattach_symbols::Frame;

/// A call as it is told.
pub fn told(frame: Frame) -> FrameReport {
    let Frame { module, offset, function, file, line, inlined } = frame;
    let text = |shared: std::sync::Arc<str>| shared.to_string();
    let (function, file) = (function.map(text), file.map(text));
    FrameReport { module: text(module), offset, function, file, line, inlined }
}
