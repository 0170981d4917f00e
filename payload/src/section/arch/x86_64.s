# The payload for x86-64: descriptor, hooks, cells. No relocations, no writable data.
#
# A hook is entered in place of a function, with the stack and the registers of that function's
# entry. Nearly always it counts and leaves by jumping to the original, all registers unchanged:
# general registers and vector state (never touched). No frame of ours is below the original then.
# The arithmetic flags are not kept: an entry is hooked only if its function provably writes over
# them (the injector's entry::flags), and what is called by way of a slot is a stranger, on which no
# caller counts.
#
# A hook keeps what it borrows in the 128 bytes below the stack pointer, which signal handlers
# leave alone and which no code can use at a function's entry. So the stack pointer does not move,
# and an unwinder finds the return address where it is at any entry.
#
#   rsp-24 r10    rsp-32 r11
#
# Beside it stands a brief one, which keeps neither: for slots, and for entries to which no direct
# branch of their own module leads, whose compiler may have known the function. Every other caller
# counts on the calling convention alone: a call may change both, and neither has an argument.
#
# What is to be recorded takes the slow path: a frame, Rust (crate::hooks), and for what must be
# told after the original, a call of it.
#
# fs:0 is the thread pointer itself, with every libc. Where none is set yet, reading it faults:
# hooks must not be enabled before the target's C library has set up its first thread.

.set .Lhook_stride, 288
.if {IS_FLOW}
.set .Lbrief, 0
.else
.set .Lbrief, 168
.endif

# ---- descriptor: heapattach_abi::image::Image -------------------------------------------------
.Limage:
    .balign 64
    .quad {MAGIC}
    .long {VERSION}
    .long .Lend - .Limage
    .long .Lentry - .Limage
    .long .Lhook_stride
    .long .Lcontrol - .Limage
    .long .Lindex - .Limage
    .long .Lfilter - .Limage
    .long .Lorig - .Limage
    .long .Lsigreturn - .Limage
    .long .Lsecond - .Limage
.if {IS_FLOW}
    .long .Lsizers - .Limage
.else
    .long 0
.endif
    .long .Lbrief
    .long {FREE_FIRST}, {FREE_HOOKS}
    .long {MALLOC_FIRST}, {MALLOC_HOOKS}
    .long {CALLOC_FIRST}, {CALLOC_HOOKS}
    .long {REALLOC_FIRST}, {REALLOC_HOOKS}
    .long {MEMALIGN_FIRST}, {MEMALIGN_HOOKS}
    .long {POSIX_MEMALIGN_FIRST}, {POSIX_MEMALIGN_HOOKS}
    .long {MAP_FIRST}, {MAP_HOOKS}
    .long {UNMAP_FIRST}, {UNMAP_HOOKS}
    .long {REMAP_FIRST}, {REMAP_HOOKS}
    .long {NEW_FIRST}, {NEW_HOOKS}
    .long {CHOSEN_FIRST}, {CHOSEN_HOOKS}

# ---- hooks ------------------------------------------------------------------------------------

.macro begin
    .org .Lhooks + .Lhook * .Lhook_stride, 0xcc
    endbr64
    mov [rsp - 24], r10
    mov [rsp - 32], r11
.endm

# The row of this thread in r10, or on to a label. A child made by fork has none: its index is empty.
.macro find_row otherwise
    mov r11, fs:[0]
    imul r10, r11, {INDEX_HASH_MUL}
    shr r10, {INDEX_SHIFT}
    and r10d, {INDEX_MASK}
    add r10, [rip + .Lindex]
    cmp r11, [r10 + {ENTRY_KEY}]
    mov r10, [r10 + {ENTRY_ROW}]
    jne \otherwise
    test r10, r10                       # wiped since: a signal handler has forked just here
    jz \otherwise
.endm

# Leaves for the slow path if the block may be a sample.
.macro check_filter block, otherwise
    mov r11, \block
    shr r11, {FILTER_SHIFT}
    and r11d, {FILTER_MASK}
    add r11, [rip + .Lfilter]
    cmp byte ptr [r11], 0
    jne \otherwise
.endm

# Leaves if a block of so many bytes is to be recorded.
.macro count_down bytes, large, sample
    cmp \bytes, [r10 + {THRESHOLD}]
    jae \large
    sub [r10 + {COUNTDOWN}], \bytes
    jb \sample
.endm

.macro count
    add qword ptr [r10 + {COUNTS} + 16 * .Lhook], 1
.endm

.macro count_bytes bytes
    add [r10 + {COUNTS} + 16 * .Lhook + 8], \bytes
.endm

.macro leave
    mov r11, [rsp - 32]
    mov r10, [rsp - 24]
    jmp [rip + .Lorig + 8 * .Lhook]
.endm

# To the slow path with the row of this thread in r10: nothing was done yet.
.macro slow
    mov r11d, .Lhook | (.Lkind << 8)
    jmp .Lslow_path
.endm

# The same where the countdown went below zero.
.macro slow_with_sample
    movabs r11, .Lhook | (.Lkind << 8) | (1 << 32)
    jmp .Lslow_path
.endm

# ---- counting blocks by size (crate::flow), in the build for it alone --------------------------

# On to a label unless the hook's function has blocks with a size before them.
.macro unless_flow otherwise
    cmp qword ptr [rip + .Lsecond + 8 * .Lhook], {FLOW_COUNTS}
    jne \otherwise
.endm

# On to a label if the size of a block has to be asked for: that is for the slow path.
.macro if_asked otherwise
.if {IS_FLOW}
    cmp qword ptr [rip + .Lsizers + 8 * .Lhook], 0
    jne \otherwise
.endif
.endm

# Counts the block in a register in the row in r10, with the one or the other word of its class. The
# offset among the classes is that of heapattach_abi::flow::class: a small chunk is its own.
.macro count_chunk block, offset
    mov r11, [\block - 8]
    and r11, -16
    cmp r11, {FLOW_FINE}
    jb 7f
    call .Lflow_large
7:  add r11, [r10 + {FLOW}]
    add qword ptr [r11 + \offset], 1
.endm

# Counts a block that goes.
.macro flow_free
.if {IS_FLOW}
    unless_flow 8f
    test rdi, rdi
    jz 8f
    count_chunk rdi, 8
8:
.endif
.endm

# Calls the original, to count the block that it hands out in rax. Every register is as the original
# leaves it.
#
#   rsp+32 r10    rsp+24 r11    rsp+16 the row
.macro flow_call
.if {IS_FLOW}
    unless_flow 8f
    add qword ptr [r10 + {BUSY}], 1
    lea rsp, [rsp - 56]
    mov [rsp + 16], r10
    mov r11, [rsp + 24]
    mov r10, [rsp + 32]
    call [rip + .Lorig + 8 * .Lhook]
    jmp .Lflow_after
8:
.endif
.endm

# What the slow path does for threads that come seldom.
.macro flow_slow otherwise
.if {IS_FLOW}
    cmp qword ptr [rip + .Lsecond + 8 * .Lhook], {FLOW_COUNTS}
    je \otherwise
.endif
    if_asked \otherwise
.endm

# A hook twice: as it is for every caller, and the brief one, which takes the same ways out. `what` is
# a macro of those below: what it does with the argument of interest, and where it goes on with what
# is for the slow path, and when the countdown went below zero.
.macro hook what, argument
    begin
    find_row .Lunknown\@
    \what \argument, .Lslow\@, .Lsample\@
    leave
.ifnc \what, frees
.Lsample\@:
    slow_with_sample
.endif
.Lunknown\@:
    xor r10d, r10d
.Lslow\@:
    slow
.if {IS_FLOW} == 0
    .org .Lhooks + .Lhook * .Lhook_stride + .Lbrief, 0xcc
    endbr64
    find_row .Lunknown\@
    \what \argument, .Lslow\@, .Lsample\@
    jmp [rip + .Lorig + 8 * .Lhook]
.endif
    .set .Lhook, .Lhook + 1
.endm

.macro frees block, slowly, sample
    if_asked \slowly
    check_filter \block, \slowly
    count
    flow_free
.endm

.macro allocates bytes, slowly, sample
    if_asked \slowly
    count_down \bytes, \slowly, \sample
    count
    count_bytes \bytes
    flow_call
.endm

# The same for what hands out a block elsewhere, or may throw.
.macro allocates_otherwise bytes, slowly, sample
    flow_slow \slowly
    count_down \bytes, \slowly, \sample
    count
    count_bytes \bytes
.endm

.macro allocates_zeroed number, slowly, sample
    if_asked \slowly
    mov r11, \number                    # below 2^31 each, or the slow way
    or r11, rsi
    shr r11, 31
    jnz \slowly
    mov r11, \number
    imul r11, rsi
    count_down r11, \slowly, \sample
    count
    count_bytes r11
    flow_call
.endm

.macro allocates_again block, slowly, sample
    flow_slow \slowly
    check_filter \block, \slowly
    count_down rsi, \slowly, \sample
    count
    count_bytes rsi
.endm

.macro hook_always
    begin
    xor r10d, r10d
    slow
    .set .Lhook, .Lhook + 1
.endm

# Like that, and the original finds the arithmetic flags as they were too: nothing but moves until the
# flags are where the slow path has them.
.macro hook_keeping_flags
    begin
    mov [rsp + {FRAME_RAX} - {FRAME_BYTES}], rax
    lahf
    seto al
    mov [rsp + {FRAME_FLAGS} - {FRAME_BYTES}], rax
    mov rax, [rsp + {FRAME_RAX} - {FRAME_BYTES}]
    xor r10d, r10d
    slow
    .set .Lhook, .Lhook + 1
.endm

# As hook_keeping_flags left them, or whatever else is there. rax is lost.
.macro restore_flags
    mov rax, [rsp + {FRAME_FLAGS}]
    add al, 0x7f                        # overflows if it was 1
    sahf
.endm

    .balign 64, 0xcc
.Lhooks:
.set .Lentry, .Lhooks
.set .Lhook, 0
.set .Lkind, {FREE_KIND}
.rept {FREE_HOOKS}
    hook frees, rdi
.endr
.set .Lkind, {MALLOC_KIND}
.rept {MALLOC_HOOKS}
    hook allocates, rdi
.endr
.set .Lkind, {CALLOC_KIND}
.rept {CALLOC_HOOKS}
    hook allocates_zeroed, rdi
.endr
.set .Lkind, {REALLOC_KIND}
.rept {REALLOC_HOOKS}
    hook allocates_again, rdi
.endr
.set .Lkind, {MEMALIGN_KIND}
.rept {MEMALIGN_HOOKS}
    hook allocates, rsi
.endr
.set .Lkind, {POSIX_MEMALIGN_KIND}
.rept {POSIX_MEMALIGN_HOOKS}
    hook allocates_otherwise, rdx
.endr
.set .Lkind, {MAP_KIND}
.rept {MAP_HOOKS}
    hook_always
.endr
.set .Lkind, {UNMAP_KIND}
.rept {UNMAP_HOOKS}
    hook_always
.endr
.set .Lkind, {REMAP_KIND}
.rept {REMAP_HOOKS}
    hook_always
.endr
.set .Lkind, {NEW_KIND}
.rept {NEW_HOOKS}
    hook allocates_otherwise, rdi
.endr
.set .Lkind, {CHOSEN_KIND}
.rept {CHOSEN_HOOKS}
    hook_keeping_flags
.endr
    .org .Lhooks + .Lhook * .Lhook_stride, 0xcc

.if {IS_FLOW}
.Lflow_after:
    mov [rsp + 24], r11
    mov [rsp + 32], r10
    mov r11, [rip + .Lcontrol]
    cmp qword ptr [r11 + {REGION}], 0   # a child that was forked in there shares the row
    je 2f
    mov r10, [rsp + 16]
    test rax, rax
    jz 1f
    count_chunk rax, 0
1:  sub qword ptr [r10 + {BUSY}], 1
2:  mov r11, [rsp + 24]
    mov r10, [rsp + 32]
    lea rsp, [rsp + 56]
    ret

# The offset of a large chunk's class for the chunk itself, in r11.
.Lflow_large:
    mov [rsp - 48], rcx
    bsr rcx, r11
    sub ecx, 2
    shr r11, cl
    shl ecx, 2
    add r11d, ecx
    shl r11d, 4
    add r11d, {FLOW_BIAS}
    mov rcx, [rsp - 48]
    cmp r11d, {FLOW_LAST}
    jbe 1f
    mov r11d, {FLOW_LAST}
1:  ret
.endif

# ---- the slow path ----------------------------------------------------------------------------

# With the row in r10, hook, kind and reason in r11; r10 and r11 of the caller are where every hook
# puts them, which is where crate::frame::Frame has them. The frame keeps the stack aligned for calls.
.Lslow_path:
    lea rsp, [rsp - {FRAME_BYTES}]
    mov [rsp + {FRAME_RAX}], rax
    mov [rsp + {FRAME_RCX}], rcx
    mov [rsp + {FRAME_RDX}], rdx
    mov [rsp + {FRAME_RSI}], rsi
    mov [rsp + {FRAME_RDI}], rdi
    mov [rsp + {FRAME_R8}], r8
    mov [rsp + {FRAME_R9}], r9
    mov [rsp + {FRAME_RBP}], rbp
    mov [rsp + {FRAME_CALL}], r11
    mov [rsp + {FRAME_ROW}], r10
    mov rdi, rsp
    lea rsi, [rip + .Lcells]
    call {ENTER}
    test eax, eax
    mov rcx, [rsp + {FRAME_RCX}]
    mov rdx, [rsp + {FRAME_RDX}]
    mov rsi, [rsp + {FRAME_RSI}]
    mov rdi, [rsp + {FRAME_RDI}]
    mov r8, [rsp + {FRAME_R8}]
    mov r9, [rsp + {FRAME_R9}]
    mov r10, [rsp + {FRAME_R10}]
    mov r11, [rsp + {FRAME_R11}]
    jnz .Lcall_original
    restore_flags
    mov rax, [rsp + {FRAME_RAX}]
    lea rsp, [rsp + {FRAME_BYTES}]
    jmp [rsp - 8]                       # Frame::target

.Lcall_original:
    restore_flags
    mov rax, [rsp + {FRAME_RAX}]
    call [rsp + {FRAME_TARGET}]
.Lreturned:
    mov [rsp + {FRAME_RAX}], rax
    mov [rsp + {FRAME_RCX}], rcx
    mov [rsp + {FRAME_RDX}], rdx
    mov [rsp + {FRAME_RSI}], rsi
    mov [rsp + {FRAME_RDI}], rdi
    mov [rsp + {FRAME_R8}], r8
    mov [rsp + {FRAME_R9}], r9
    mov [rsp + {FRAME_R10}], r10
    mov [rsp + {FRAME_R11}], r11
    mov rdi, rsp
    lea rsi, [rip + .Lcells]
    call {LEAVE}
    test eax, eax
    mov rcx, [rsp + {FRAME_RCX}]
    mov rdx, [rsp + {FRAME_RDX}]
    mov rsi, [rsp + {FRAME_RSI}]
    mov rdi, [rsp + {FRAME_RDI}]
    mov r8, [rsp + {FRAME_R8}]
    mov r9, [rsp + {FRAME_R9}]
    mov r10, [rsp + {FRAME_R10}]
    mov r11, [rsp + {FRAME_R11}]
    jnz .Ljump_after_all
    restore_flags
    mov rax, [rsp + {FRAME_RAX}]
    lea rsp, [rsp + {FRAME_BYTES}]
    ret
.Ljump_after_all:
    lea rsp, [rsp + {FRAME_BYTES}]
    jmp [rsp - 8]                       # Frame::target

# rt_sigreturn as a C library writes it, by which unwinders know it; the byte before, because
# they look a return address up one byte earlier.
    .balign 16, 0xcc
    .fill 15, 1, 0xcc
    nop
.Lsigreturn:
    .byte 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00    # mov rax, 15
    syscall
    ud2

# ---- cells ------------------------------------------------------------------------------------

# On cache lines of their own: they are read as data at every call. crate::cells::Cells.
    .balign 64, 0xcc
.Lcells:
.Lcontrol:
    .quad 0
.Lindex:
    .quad 0
.Lfilter:
    .quad 0
    .quad .Lcells - .Lreturned
    .balign 64, 0
.Lorig:
    .fill {MAX_HOOKS}, 8, 0
.Lsecond:
    .fill {MAX_HOOKS}, 8, 0
.if {IS_FLOW}
.Lsizers:
    .fill {MAX_HOOKS}, 8, 0
    .fill {MAX_HOOKS}, 8, 0                             # crate::cells::Cells::owners
.endif
.Lend:
