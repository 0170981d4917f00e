"""Run by gdb, attached to a process with `stack_oracle.c` preloaded: writes the call stack of every
allocation, as gdb sees it, in the form of `--stacks`.

HEAPATTACH_GDB names the file, which is there (and empty) as soon as nothing is missed any more. SIGINT
ends it: the process is let go, and the file has its stacks.
"""

import os

import gdb

# Frames of functions that are inlined, or left by a tail call, have no return address.
REAL = (gdb.NORMAL_FRAME, gdb.SIGTRAMP_FRAME)
stacks = []


def stack():
    frame, frames = gdb.newest_frame(), []
    while frame is not None:
        if frame.type() in REAL:
            frames.append(frame.pc())
        end, frame = frame.unwind_stop_reason(), frame.older()
    reason = "outermost" if end == gdb.FRAME_UNWIND_OUTERMOST else f"gdb-{end}"
    # The first is the library's function itself: its address is no return address.
    return " ".join(["1", reason, *map(hex, frames[1:])])


class Allocation(gdb.Breakpoint):
    def stop(self):
        stacks.append(stack())
        return False


for line in """
    set pagination off
    set confirm off
    set backtrace past-main on
    set backtrace past-entry on
    set backtrace limit unlimited
    handle all nostop noprint pass
    handle SIGINT stop print nopass
    """.split("\n"):
    gdb.execute(line)
Allocation("stack_oracle.c:note")
path = os.environ["HEAPATTACH_GDB"]
with open(path, "w"):
    pass
gdb.execute("continue")
gdb.execute("detach")
with open(path, "w") as file:
    file.write("# heapattach/stacks/1\n" + "".join(line + "\n" for line in stacks))
