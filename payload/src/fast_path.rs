//! The two calls that nearly all records come from, `malloc` and `free`, in a session that records
//! everything: what [`crate::hooks`] would do, in a third of the instructions. Whatever is not quite
//! usual is left to that.

use heapattach_abi::{kind::HookKind, ring::Kind, row};

use crate::{
    cells::Cells,
    flow,
    frame::{Frame, Reason},
    ring::Record,
    room,
    row::{Row, sane},
    stack,
};

/// What the frame says of a call that [`begin`] has begun.
pub(crate) const USUAL: u64 = 8;

/// Before the original; answers as [`crate::hooks::enter`] does, or `None` if the call is another one.
#[inline(always)]
pub(crate) fn begin(frame: &mut Frame, cells: &Cells) -> Option<u32> {
    let is_usual =
        frame.row != 0 && frame.reason() == Reason::Nothing && cells.is_plainly_by_address();
    let row = Row::own(cells, frame.row);
    match frame.kind() {
        Some(HookKind::Free) if is_usual && frame.rdi != 0 => {
            row.add(row::BUSY, 1);
            row.count_call(frame.hook());
            if flow::counts(frame, cells) {
                flow::goes(frame, cells, &row, frame.rdi);
            }
            let stack = stack::caller(cells, frame, &row);
            let freed = Record::plain(Kind::Freed, frame.hook(), frame.rdi, 0);
            room::push(cells, &row, &Record { stack, ..freed });
            row.end_call(cells);
            Some(0)
        }
        Some(HookKind::Malloc) if is_usual && row.records_everything() => {
            row.add(row::BUSY, 1);
            row.look_at_heartbeat(cells);
            row.count(frame.hook(), sane(frame.rdi));
            frame.begun = USUAL;
            frame.arguments[0] = frame.rdi;
            Some(1)
        }
        _ => None,
    }
}

/// After a `malloc` that [`begin`] has begun.
#[inline(always)]
pub(crate) fn finish(frame: &Frame, cells: &Cells) {
    let row = Row::own(cells, frame.row);
    if frame.rax != 0 && cells.is_at_home() {
        let stack = stack::capture(cells, frame, &row);
        let (address, size) = (frame.rax, frame.arguments[0]);
        let allocated = Record::plain(Kind::Allocated, frame.hook(), address, size);
        let interval_number = row.interval_number();
        room::push(cells, &row, &Record { stack, interval_number, ..allocated });
        if flow::counts(frame, cells) {
            flow::came(frame, cells, &row, frame.rax, size);
        }
    }
    row.end_call(cells);
}
