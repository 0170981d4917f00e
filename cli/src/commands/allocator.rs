//! `heapattach allocator`.

use heapattach_files::artifact::{self, Readers};
use heapattach_injector::attach;
use heapattach_report::{CountersReport, Status};
use heapattach_session::allocator::Look;
use heapattach_view::Page;

use crate::{
    args::{AllocatorArgs, json},
    exit_status::Exit,
    output::{complain, print},
};

/// Tells what the allocators of a process count.
pub fn allocator(args: &AllocatorArgs) -> Exit {
    let pid = match args.which.pid() {
        Ok(Some(pid)) => pid,
        Ok(None) => {
            complain(
                "a look at an allocator needs a process: heapattach allocator -p PID, or a name",
            );
            return Exit::Usage;
        }
        Err(unclear) => {
            complain(&unclear.message);
            return unclear.exit;
        }
    };
    let mut look = match Look::open(pid) {
        Ok(look) => look,
        Err(errno) => {
            // What is needed and what to type is the same as for an attach.
            let (status, why) = match attach::open(pid, false) {
                Err(refusal) if refusal.unsupported => (Status::Unsupported, refusal.to_string()),
                Err(refusal) => (Status::Refused, refusal.to_string()),
                Ok(_) => (Status::Refused, format!("its memory cannot be read: {}", errno.desc())),
            };
            let report = CountersReport::new(pid, String::new());
            return tell(&report.failed(status, format!("{why} (target: untouched)")), args);
        }
    };
    let mut exit = tell(&look.take(), args);
    let Some(every) = args.every else { return exit };
    let mut left = args.count.map(|count| count - 1);
    while exit == Exit::Done && left != Some(0) {
        if !look.wait(every) {
            complain(&format!("process {pid} has ended"));
            return Exit::TargetDied;
        }
        exit = tell(&look.take(), args);
        left = left.map(|left| left - 1);
    }
    exit
}

fn tell(report: &CountersReport, args: &AllocatorArgs) -> Exit {
    let exit = Exit::from(report.status);
    if let Some(error) = &report.error {
        complain(error);
    }
    // One line a look, where there are several.
    let text = || match args.every {
        None => serde_json::to_string_pretty(report).unwrap_or_default(),
        Some(_) => serde_json::to_string(report).unwrap_or_default(),
    };
    if json::is_instead(args.json.as_ref()) {
        return print(&text(), exit);
    }
    if let Some(path) = json::file(args.json.as_ref())
        && let Err(error) = artifact::write(path, text() + "\n", Readers::Owner)
    {
        complain(&error);
        return if exit == Exit::Done { Exit::Failed } else { exit };
    }
    if report.allocators.is_empty() {
        return exit;
    }
    let page = Page::for_stream(args.color, &std::io::stdout());
    print(args.view.tell(report, page).trim_end(), exit)
}
