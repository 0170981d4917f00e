//! The file `--stacks` writes: every distinct call stack, as heapattach walked it.

/// The first line.
const HEADER: &str = "# heapattach/stacks/1";
/// The end of a stack whose walk reached the end of the thread.
pub const OUTERMOST: &str = "outermost";
/// The end of a stack that was longer than [`DEEPEST`].
pub const DEPTH: &str = "depth";
/// Frames of the longest stack.
pub const DEEPEST: usize = 127;

/// One call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedStack {
    /// Allocations made from it.
    pub allocations: u64,
    /// Why it ends: [`OUTERMOST`], or how it was cut.
    pub end: String,
    /// Return addresses, innermost first.
    pub frames: Vec<u64>,
}

/// Reads such a file.
///
/// # Errors
/// The line that is none of its lines, and what is wrong with it.
pub fn parse(text: &str) -> Result<Vec<RecordedStack>, String> {
    let Some(lines) = text.strip_prefix(HEADER).and_then(|rest| rest.strip_prefix('\n')) else {
        return Err(format!("the first line is not `{HEADER}`"));
    };
    // A line cut short by a writer that was killed would be a shorter stack.
    if !lines.is_empty() && !lines.ends_with('\n') {
        return Err("the last line has no end".to_owned());
    }
    let lines = lines.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| stack(line).map_err(|what| format!("{what} in `{line}`"))).collect()
}

fn stack(line: &str) -> Result<RecordedStack, &'static str> {
    let mut words = line.split(' ');
    let allocations = words.next().and_then(|word| word.parse().ok());
    let allocations = allocations.filter(|&number| number > 0).ok_or("no number of allocations")?;
    let end = words.next().unwrap_or_default().to_owned();
    if !end.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Err("no reason for its end");
    }
    let frame = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
    let frames: Option<Vec<u64>> = words.map(frame).collect();
    let frames = frames.filter(|frames| !frames.is_empty()).ok_or("no frames")?;
    Ok(RecordedStack { allocations, end, frames })
}

/// Writes such a file, as heapattach would.
#[must_use]
pub fn write(stacks: &[RecordedStack]) -> String {
    let line = |stack: &RecordedStack| {
        let frames: String = stack.frames.iter().map(|frame| format!(" {frame:#x}")).collect();
        format!("{} {}{frames}\n", stack.allocations, stack.end)
    };
    format!("{HEADER}\n") + &stacks.iter().map(line).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        let stacks = [
            RecordedStack { allocations: 3, end: OUTERMOST.to_owned(), frames: vec![0x10, 0xffff] },
            RecordedStack { allocations: 1, end: "no-table".to_owned(), frames: vec![1] },
        ];
        assert_eq!(parse(&write(&stacks)).unwrap(), stacks);
        assert_eq!(parse(&write(&[])).unwrap(), []);
    }

    #[test]
    fn refuses_what_is_no_stack() {
        for line in ["", "1 outermost", "0 outermost 0x1", "x outermost 0x1", "1 0x1", "1 depth 12"]
        {
            assert!(parse(&format!("{HEADER}\n{line}\n")).is_err(), "`{line}`");
        }
        assert!(parse("1 outermost 0x1\n").is_err(), "no header");
        assert!(parse(&format!("{HEADER}\n1 outermost 0x1")).is_err(), "a cut line");
    }
}
