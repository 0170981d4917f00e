//! The two calls that nearly all records come from, `malloc` and `free`, in a session that records
//! everything: what [`crate::hooks`] would do, in a third of the instructions. Whatever is not quite
//! usual is left to that.

use heapattach_abi::{kind::HookKind, ring::Kind, row};

use crate::{
    cells::Cells,
    flow,
    frame::{Frame, Reason},
    hooks,
    ring::{self, Record},
    row::Row,
    stack,
};

/// Before the original; answers as [`hooks::enter`] does, or `None` if the call is another one.
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
            ring::push(cells, &row, &Record { stack, ..freed });
            hooks::end(cells, &row);
            Some(0)
        }
        Some(HookKind::Malloc) if is_usual && row.records_everything() => {
            row.add(row::BUSY, 1);
            hooks::look_at_heartbeat(cells, &row);
            row.count(frame.hook(), hooks::sane(frame.rdi));
            frame.begun = hooks::USUAL;
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
        ring::push(cells, &row, &Record { stack, interval_number, ..allocated });
        if flow::counts(frame, cells) {
            flow::came(frame, cells, &row, frame.rax, size);
        }
    }
    hooks::end(cells, &row);
}
