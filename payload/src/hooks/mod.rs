//! What happens in a call that is not just counted.

mod kernel;

use heapattach_abi::{form::Form, kind::HookKind, nest::INNER, ring::Kind, row};

use crate::{
    arch,
    cells::Cells,
    fast_path, flow,
    frame::{ASKS, Frame, Reason},
    nest, proven_pages,
    ring::Record,
    room,
    row::{Row, sane},
    stack, table,
};

/// The block or mapping in the first argument was announced to be freed.
const ANNOUNCED: u64 = 1;
/// What the original allocates is to be recorded.
const RECORDS: u64 = 2;
/// The announced block was a sample.
const WAS_SAMPLE: u64 = 4;
/// Blocks are counted by size.
const FLOWS: u64 = 16;
/// Nothing is allocated, whatever is returned.
const TAKES_ONLY: u64 = 128;
/// Pages may go.
const GOES: u64 = 512;

const MREMAP_DONTUNMAP: u64 = 4;

/// Before the original. 0: jump to it; 1: call it, then [`leave`].
pub(crate) extern "C" fn enter(frame: &mut Frame, cells: &Cells) -> u32 {
    frame.target = cells.original(frame.hook());
    if !cells.is_enabled() {
        pass(frame, cells);
        return 0;
    }
    match fast_path::begin(frame, cells) {
        Some(answer) => answer,
        None => enter_any(frame, cells),
    }
}

/// Hooks are off, but threads may still be in the middle of one.
#[cold]
#[inline(never)]
fn pass(frame: &mut Frame, cells: &Cells) {
    if proven_pages::may_be_direct(cells)
        && let Some((start, end)) = kernel::takes_pages(frame, cells)
    {
        proven_pages::end_looks(cells, start, end);
    }
}

/// Before a call by which pages may go; answers what is to be known of it afterwards.
#[inline(always)]
fn begin_to_take(frame: &mut Frame, cells: &Cells) -> u64 {
    if !proven_pages::may_be_direct(cells) {
        return 0;
    }
    let Some((start, end)) = kernel::takes_pages(frame, cells) else { return 0 };
    proven_pages::go(cells, start, end);
    GOES
}

/// The same for every kind of call.
#[inline(never)]
fn enter_any(frame: &mut Frame, cells: &Cells) -> u32 {
    let row = match frame.row {
        0 => Row::of_this_thread(cells, frame.stack_pointer()),
        own => Row::own(cells, own),
    };
    row.add(row::BUSY, 1);
    row.look_at_heartbeat(cells);
    let goes = begin_to_take(frame, cells);
    if kernel::begin(frame, cells) {
        frame.begun |= goes;
        frame.row = row.address();
        return 1;
    }
    frame.begun = nest::begin(frame, cells, &row);
    frame.begun |= begin(frame, cells, &row, frame.hook()) | begin_flow(frame, cells, &row) | goes;
    if frame.begun == 0 {
        row.end_call(cells);
        return 0;
    }
    frame.row = row.address();
    match frame.kind() {
        Some(HookKind::Chosen) => {}
        kind => {
            frame.arguments = [frame.rdi, frame.rsi, frame.rdx];
            // No exception may come through our frame.
            if kind == Some(HookKind::New) {
                frame.target = cells.second(frame.hook());
            }
        }
    }
    1
}

/// Accounts for the call, announces what it frees, and decides whether it is a sample.
fn begin(frame: &mut Frame, cells: &Cells, row: &Row, hook: usize) -> u64 {
    let (first, second, third) = (frame.rdi, frame.rsi, frame.rdx);
    match frame.kind() {
        Some(HookKind::Free) => {
            if frame.begun & nest::INNER == 0 {
                row.count_call(hook);
            }
            give_back(frame, cells, row, first);
            0
        }
        Some(HookKind::Malloc | HookKind::New) => count(frame, cells, row, first),
        Some(HookKind::Calloc) => {
            let size = first.checked_mul(second);
            count(frame, cells, row, size.unwrap_or(u64::MAX))
        }
        Some(HookKind::Memalign) => count(frame, cells, row, second),
        Some(HookKind::PosixMemalign) => count(frame, cells, row, third),
        Some(HookKind::Realloc) => {
            let given = give_back(frame, cells, row, first);
            given | count(frame, cells, row, second)
        }
        Some(HookKind::Map) => {
            count_pages(frame, row, second);
            RECORDS
        }
        Some(HookKind::Unmap) => {
            count_pages(frame, row, second);
            unmap(frame, cells, row, first, second)
        }
        Some(HookKind::Remap) => {
            count_pages(frame, row, third);
            let stays = second == 0 || frame.rcx & MREMAP_DONTUNMAP != 0;
            RECORDS | if stays { 0 } else { unmap(frame, cells, row, first, second) }
        }
        Some(HookKind::Chosen) => begin_chosen(frame, cells, row),
        None => 0,
    }
}

/// In the middle of another call it is counted when it is known not to be a part of that.
fn count_pages(frame: &Frame, row: &Row, length: u64) {
    if frame.begun & nest::INNER == 0 {
        row.count(frame.hook(), sane(length));
    }
}

/// Says that pages are about to be freed.
fn unmap(frame: &mut Frame, cells: &Cells, row: &Row, at: u64, length: u64) -> u64 {
    if nest::unmaps_the_same(frame, cells, row, at, length) {
        return 0;
    }
    let record = Record::plain(Kind::Unmapped, frame.hook(), at, length);
    announce(frame, cells, row, &record)
}

/// Counts a block that goes, and says whether one may come.
#[inline(always)]
fn begin_flow(frame: &mut Frame, cells: &Cells, row: &Row) -> u64 {
    if !flow::counts(frame, cells) {
        return 0;
    }
    match frame.kind() {
        Some(HookKind::Free) => {
            flow::goes(frame, cells, row, frame.rdi);
            0
        }
        Some(HookKind::Realloc) => {
            frame.gone = flow::goes(frame, cells, row, frame.rdi);
            FLOWS
        }
        // `begin_chosen` has put the block there.
        Some(HookKind::Chosen) => {
            frame.gone = flow::goes(frame, cells, row, frame.arguments[0]);
            if Form::unpack(cells.second(frame.hook())).hands_out() { FLOWS } else { 0 }
        }
        Some(HookKind::Map | HookKind::Unmap | HookKind::Remap) | None => 0,
        _ => FLOWS,
    }
}

/// The same where the arguments are anywhere; leaves them for [`leave`] in the order of realloc.
#[inline(never)]
fn begin_chosen(frame: &mut Frame, cells: &Cells, row: &Row) -> u64 {
    let form = Form::unpack(cells.second(frame.hook()));
    let arguments = [frame.rdi, frame.rsi, frame.rdx, frame.rcx, frame.r8, frame.r9];
    let argument = |number: u8| match arguments.get(usize::from(number).wrapping_sub(1)) {
        Some(argument) => *argument,
        None => 0,
    };
    let times = if form.times == 0 { 1 } else { argument(form.times) };
    let size = argument(form.size).saturating_mul(times);
    let block = argument(form.block);
    frame.arguments = [block, size, 0];
    let given = give_back(frame, cells, row, block);
    if form.hands_out() {
        return given | count(frame, cells, row, size);
    }
    if frame.begun & nest::INNER == 0 {
        row.count_call(frame.hook());
    }
    if frame.begun & nest::OUTER == 0 { 0 } else { TAKES_ONLY }
}

fn count(frame: &Frame, cells: &Cells, row: &Row, size: u64) -> u64 {
    // In the middle of another call it is counted when it is known not to be a part of that.
    if frame.begun & nest::INNER == 0 {
        row.count(frame.hook(), sane(size));
    }
    let is_sample = match frame.reason() {
        Reason::Nothing => row.count_down(cells, size),
        Reason::Sample => {
            row.restart();
            true
        }
    };
    if is_sample { RECORDS } else { 0 }
}

/// Says that a block is about to be freed, if it was recorded.
#[inline(never)]
fn give_back(frame: &mut Frame, cells: &Cells, row: &Row, block: u64) -> u64 {
    if block == 0 || nest::gives_back_the_same(frame, cells, row, block) {
        return 0;
    }
    if cells.is_by_address() {
        let interval_number = if frame.begun & nest::INNER == 0 { 0 } else { INNER };
        let freed = Record::plain(Kind::Freed, frame.hook(), block, 0);
        return announce(frame, cells, row, &Record { interval_number, ..freed });
    }
    let Some(stamp) = table::remove(cells, block) else { return 0 };
    let record = Record::plain(Kind::FreedSample, frame.hook(), block, stamp);
    let announced = announce(frame, cells, row, &record);
    frame.sample = stamp;
    announced | WAS_SAMPLE
}

#[inline(never)]
fn announce(frame: &mut Frame, cells: &Cells, row: &Row, record: &Record) -> u64 {
    // Where everything is told, so is who gave it back, but not by which way.
    let stack = if cells.is_by_address() { stack::caller(cells, frame, row) } else { 0 };
    match room::push(cells, row, &Record { stack, ..*record }) {
        Some(stamp) => {
            frame.announced = stamp;
            ANNOUNCED
        }
        None => 0,
    }
}

/// After the original: what it handed out, or that it failed. 0: return; 1: jump to the original, since
/// what was called in its place had nothing to allocate.
pub(crate) extern "C" fn leave(frame: &mut Frame, cells: &Cells) -> u32 {
    if frame.begun == fast_path::USUAL {
        fast_path::finish(frame, cells);
        return 0;
    }
    leave_any(frame, cells);
    if frame.rax != 0 || frame.kind() != Some(HookKind::New) {
        return 0;
    }
    frame.target = cells.original(frame.hook());
    [frame.rdi, frame.rsi, frame.rdx] = frame.arguments;
    1
}

/// The same for every kind of call.
#[inline(never)]
fn leave_any(frame: &Frame, cells: &Cells) {
    if frame.begun & GOES != 0 {
        proven_pages::went(cells);
    }
    if frame.begun & ASKS != 0 {
        return leave_asking(frame, cells);
    }
    let row = Row::known(cells, frame.row);
    let [first, second, third] = frame.arguments;
    let result = frame.rax;
    let is_error = result > 4096_u64.wrapping_neg();
    let (got, size, kind) = match frame.kind() {
        Some(HookKind::Malloc | HookKind::New) => (result, first, Kind::Allocated),
        Some(HookKind::Calloc) => (result, first.wrapping_mul(second), Kind::Allocated),
        Some(HookKind::Realloc | HookKind::Memalign | HookKind::Chosen) => {
            (result, second, Kind::Allocated)
        }
        Some(HookKind::PosixMemalign) if result as u32 == 0 => {
            (arch::read(first), third, Kind::Allocated)
        }
        Some(HookKind::Map) if !is_error => (result, second, Kind::Mapped),
        Some(HookKind::Remap) if !is_error => (result, third, Kind::Mapped),
        Some(HookKind::Unmap) if result as u32 == 0 => (1, 0, Kind::Nothing),
        _ => (0, 0, Kind::Nothing),
    };
    let hands_out = matches!(kind, Kind::Allocated | Kind::Mapped) && frame.begun & TAKES_ONLY == 0;
    if kind == Kind::Mapped {
        proven_pages::came(cells, got, got.saturating_add(size));
    }
    nest::end(frame, cells, &row, if hands_out { got } else { 0 }, size);
    finish(frame, cells, &row, got, size, kind);
    if flow::IS_ON && frame.begun & FLOWS != 0 && cells.is_at_home() {
        flow::came(frame, cells, &row, got, size);
        let is_realloc = matches!(frame.kind(), Some(HookKind::Realloc | HookKind::Chosen));
        if is_realloc && got == 0 && second != 0 {
            flow::stayed(cells, &row, frame.gone);
        }
    }
    row.end_call(cells);
}

/// The same where the kernel was asked for something that is neither a block nor a mapping.
fn leave_asking(frame: &Frame, cells: &Cells) {
    let row = Row::known(cells, frame.row);
    let (kind, at, size) = kernel::done(frame, cells);
    kernel::gave_pages(frame, cells);
    if kind != Kind::Nothing && cells.is_at_home() {
        row.count(frame.hook(), sane(size));
        if !kernel::is_told(frame, cells, at) {
            record(frame, cells, &row, at, size, kind);
        }
    }
    row.end_call(cells);
}

fn finish(frame: &Frame, cells: &Cells, row: &Row, got: u64, size: u64, kind: Kind) {
    let [block, wanted, _] = frame.arguments;
    let is_realloc = matches!(frame.kind(), Some(HookKind::Realloc | HookKind::Chosen));
    // realloc(p, 0) frees p and answers null.
    let has_failed = got == 0 && !(is_realloc && wanted == 0);
    if has_failed && frame.begun & ANNOUNCED != 0 {
        room::push(
            cells,
            row,
            &Record::plain(Kind::Restored, frame.hook(), block, frame.announced),
        );
    }
    if has_failed && frame.begun & WAS_SAMPLE != 0 {
        table::insert(cells, block, frame.sample);
    }
    // A child that was forked on the way here must leave the thread's memo alone.
    if got == 0 || !cells.is_at_home() {
        return;
    }
    if frame.begun & RECORDS != 0 {
        record(frame, cells, row, got, size, kind);
    } else if frame.begun & (nest::INNER | TAKES_ONLY) == nest::INNER && kind == Kind::Allocated {
        nest::came(frame, cells, row, &Record::plain(kind, frame.hook(), got, size), None);
    }
}

/// Records what was allocated, or what else a call did.
fn record(frame: &Frame, cells: &Cells, row: &Row, got: u64, size: u64, kind: Kind) {
    if kind == Kind::Nothing {
        return;
    }
    let is_inner = frame.begun & nest::INNER != 0;
    let stack = stack::capture(cells, frame, row);
    let hook = frame.hook();
    let Some(slot) = room::reserve(cells, row, Record::need_of(hook, kind)) else {
        if is_inner {
            nest::came(frame, cells, row, &Record::plain(kind, hook, got, size), None);
        }
        return;
    };
    let interval_number = row.interval_number();
    let is_exchange = frame.begun & ANNOUNCED != 0;
    let (kind, is_block) = match kind {
        Kind::Allocated if is_exchange => (Kind::Reallocated, true),
        Kind::Mapped if is_exchange => (Kind::Remapped, false),
        kind => (kind, kind == Kind::Allocated),
    };
    let mut record = Record { kind, address: got, size, stack, hook, interval_number };
    let is_sample = is_block && !cells.is_by_address();
    if is_sample && !table::insert(cells, got, slot.stamp) {
        row.add(row::DROPPED_SAMPLES, 1);
        record.kind = Kind::Nothing;
    }
    if is_inner {
        nest::came(frame, cells, row, &record, Some(slot));
    } else {
        slot.fill(&record);
    }
}
