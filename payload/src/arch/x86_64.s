# The payload for x86-64: descriptor, hooks, cells. One section, no relocations, no writable data.
#
# A hook is entered in place of a function, with the stack and the registers of that function's
# entry, and leaves by jumping to the original with all of them unchanged: general registers,
# arithmetic flags, vector state (never touched). No frame of ours is ever below the original.
#
# A hook keeps what it borrows in the 128 bytes below the stack pointer, which signal handlers
# leave alone and which nobody can use at a function's entry. So the stack pointer does not move,
# an unwinder finds the return address where it is at any entry, and a hook needs no epilogue.
# Only the slow paths move it, past those bytes.
#
# No address of this code is ever put on a stack as it is: what a stack keeps by chance is read by
# whoever unmaps us for a thread on its way back, and a thread that then sleeps for an hour would
# keep us mapped for that hour. A slow path finds its way back by the complement of an address.
#
#   rsp-8 rcx    rsp-16 rax    rsp-24 r10    rsp-32 r11
#
# rax holds the flags meanwhile (lahf, seto): pushf and popf cost ten times as much.
#
# fs:0 is the thread pointer itself, with every libc. Where none is set yet, reading it faults:
# hooks must not be enabled before the target's C library has set up its first thread.
#
# rows: {ROW_BYTES} bytes each; all offsets into one are from the row before it, because the hash
# counts from row 0 and the rows of threads begin with row 1.

.set .Lown_key,   {ROW_BYTES} + {ROW_KEY}
.set .Lown_ticks, {ROW_BYTES} + {ROW_TICKS}
.set .Lown_sites, {ROW_BYTES} + {ROW_SITES}
.set .Lhook_stride, 320

# ---- descriptor: heapattach_abi::image::Image -------------------------------------------------
.Limage:
    .balign 64
    .quad {MAGIC}
    .long {VERSION}
    .long .Lend - .Limage
    .long .Lentry - .Limage
    .long .Lhook_stride
    .long .Lcontrol - .Limage
    .long .Ltable - .Limage
    .long .Lorig - .Limage
    .long .Lsigreturn - .Limage
    .long {NONE_FIRST}, {NONE_HOOKS}
    .long {ARG0_FIRST}, {ARG0_HOOKS}
    .long {ARG1_FIRST}, {ARG1_HOOKS}
    .long {ARG2_FIRST}, {ARG2_HOOKS}
    .long {PRODUCT_FIRST}, {PRODUCT_HOOKS}

# ---- hooks ------------------------------------------------------------------------------------

.macro call_slowly routine              # changes rcx
    add rsp, -128
    lea rcx, [rip + .Lreturn\@]
    not rcx
    push rcx
    jmp \routine
.Lreturn\@:
    sub rsp, -128
.endm

.macro return_slowly                    # changes rcx
    pop rcx
    not rcx
    jmp rcx
.endm

.macro hook kind, bytes
.Lpass\@:                               # within the reach of jrcxz and in the entry's cache line
    mov rcx, [rsp - 8]
    jmp [rip + .Lorig + 8 * .Lhook]
    .balign 16, 0xcc

    endbr64
    mov [rsp - 8], rcx
    mov rcx, [rip + .Lcontrol]
    mov ecx, [rcx + {ENABLED}]
    jrcxz .Lpass\@                      # the one jump that asks no flags
    mov [rsp - 16], rax
    mov [rsp - 24], r10
    mov [rsp - 32], r11
    lahf
    seto al

    movabs r11, .Lhook << 56            # the key of the call site
    xor r11, [rsp]

    mov rcx, fs:[0]                     # the row of this thread
    movabs r10, {ROW_HASH_MUL}
    imul r10, rcx
    shr r10, {ROW_HASH_SHIFT}
    and r10d, {ROW_HASH_MASK}
    add r10, [rip + .Ltable]
    cmp rcx, [r10 + .Lown_key]
    jne .Lslow\@

    .ifc \kind, product                 # below 2^31 each, or the slow way
    mov rcx, rdi
    or rcx, rsi
    shr rcx, 31
    jnz .Lslow\@
    .else
    .ifnc \kind, none                   # at most i64::MAX, or the slow way
    test \bytes, \bytes
    js .Lslow\@
    .endif
    .endif

    imul ecx, r11d, {SITE_HASH_MUL}     # its site
    shr ecx, {SITE_HASH_SHIFT}
    lea ecx, [rcx + 2 * rcx]
    lea rcx, [r10 + 8 * rcx]
    cmp r11, [rcx + .Lown_sites]
    jne .Lslow\@

    .ifc \kind, product
    mov r11, rdi
    imul r11, rsi
    add qword ptr [rcx + .Lown_sites + {SITE_REQUESTED}], r11
    .else
    .ifnc \kind, none
    add qword ptr [rcx + .Lown_sites + {SITE_REQUESTED}], \bytes
    .endif
    .endif
    add qword ptr [rcx + .Lown_sites + {SITE_CALLS}], 1
    sub dword ptr [r10 + .Lown_ticks], 1
    jc .Lbeat\@

.Lback\@:
    add al, 0x7f                        # 1 + 0x7f overflows, 0 + 0x7f does not
    sahf
    mov r11, [rsp - 32]
    mov r10, [rsp - 24]
    mov rax, [rsp - 16]
    mov rcx, [rsp - 8]
    jmp [rip + .Lorig + 8 * .Lhook]

.Lslow\@:
    call_slowly .Lcount_\kind
    jmp .Lback\@
.Lbeat\@:
    call_slowly .Lheartbeat
    jmp .Lback\@

    .set .Lhook, .Lhook + 1
    .org .Lhooks + .Lhook * .Lhook_stride, 0xcc
.endm

    .balign 64, 0xcc
.Lhooks:
.set .Lentry, .Lhooks + 16
.set .Lhook, 0
.rept {NONE_HOOKS}
    hook none, none
.endr
.rept {ARG0_HOOKS}
    hook arg0, rdi
.endr
.rept {ARG1_HOOKS}
    hook arg1, rsi
.endr
.rept {ARG2_HOOKS}
    hook arg2, rdx
.endr
.rept {PRODUCT_HOOKS}
    hook product, none
.endr

# ---- slow paths -------------------------------------------------------------------------------

# Called by a hook with the key in r11: a thread without a row, a call site without a site, those
# whose first bucket was taken, and sizes beyond measure. May change rcx, r10, r11 and the flags.
.Lcount_none:
    xor r10d, r10d
    jmp .Lcount
.Lcount_arg1:
    mov r10, rsi
    jmp .Lcount
.Lcount_arg2:
    mov r10, rdx
    jmp .Lcount
.Lcount_product:
    push rax
    push rdx
    mov rax, rdi
    mul rsi
    mov r10, rax
    mov ecx, 0
    cmovo r10, rcx
    pop rdx
    pop rax
    jmp .Lcount
.Lcount_arg0:
    mov r10, rdi
.Lcount:
    push rax
    push rdx
    push r8
    push r9
    test r10, r10
    jns .Lfind_row
    xor r10d, r10d

.Lfind_row:
    mov rdx, fs:[0]
    movabs r9, {ROW_HASH_MUL}
    imul r9, rdx
    shr r9, {ROW_HASH_SHIFT}
    and r9d, {ROW_HASH_MASK}
    add r9, [rip + .Ltable]
    mov ecx, {ROW_PROBES}
.Ltry_row:
    # A signal handler of this thread may claim a row between any two instructions here: the
    # first free one from the same bucket on, which this loop is still to look at.
    mov rax, [r9 + .Lown_key]
    cmp rax, rdx
    je .Lfind_site
    test rax, rax
    jnz .Lnext_row
    lock cmpxchg [r9 + .Lown_key], rdx
    je .Lfind_site
    cmp rax, rdx
    je .Lfind_site
.Lnext_row:
    add r9, {ROW_BYTES}
    dec ecx
    jnz .Ltry_row
    mov r9, [rip + .Ltable]             # row 0, everybody's
    sub r9, {ROW_BYTES}
    xor edx, edx                        # remembers it

.Lfind_site:
    imul ecx, r11d, {SITE_HASH_MUL}
    shr ecx, {SITE_HASH_SHIFT}
    lea ecx, [rcx + 2 * rcx]
    lea r8, [r9 + 8 * rcx + .Lown_sites]
    mov ecx, {SITE_PROBES}
.Ltry_site:
    mov rax, [r8]
    cmp rax, r11
    je .Ladd
    test rax, rax
    jnz .Lnext_site
    lock cmpxchg [r8], r11              # locked for the sake of row 0
    je .Ladd
    cmp rax, r11
    je .Ladd
.Lnext_site:
    add r8, {SITE_BYTES}
    dec ecx
    jnz .Ltry_site
    mov r8, r11                         # no room: the overflow of the hook,
    shr r8, 56
    shl r8, 4
    # as if it were a site
    lea r8, [r9 + r8 + {ROW_BYTES} + {ROW_OVERFLOW} - {SITE_CALLS}]

.Ladd:
    test edx, edx
    jz .Ladd_locked
    add qword ptr [r8 + {SITE_REQUESTED}], r10
    add qword ptr [r8 + {SITE_CALLS}], 1
    sub dword ptr [r9 + .Lown_ticks], 1
    jmp .Ladded
.Ladd_locked:
    lock add qword ptr [r8 + {SITE_REQUESTED}], r10
    lock add qword ptr [r8 + {SITE_CALLS}], 1
    lock sub dword ptr [r9 + .Lown_ticks], 1
.Ladded:
    mov r10, r9
    pop r9
    pop r8
    pop rdx
    pop rax
    jc .Lheartbeat                      # pop and mov leave the carry alone
    return_slowly

# Called with the row in r10, once in {TICKS} calls and on a row's first. May change rcx, r10,
# r11 and the flags.
.Lheartbeat:
    mov dword ptr [r10 + .Lown_ticks], {TICKS} - 1
    mov rcx, [rip + .Lcontrol]
    mov r11, [rcx + {DEADLINE_TSC}]
    test r11, r11
    jz .Lalive
    push rax
    push rdx
    rdtsc
    shl rdx, 32
    or rax, rdx
    cmp rax, r11
    pop rdx
    pop rax
    jbe .Lalive
    mov dword ptr [rcx + {EXPIRED}], 1  # first: whoever sees us off shall know why
    mov dword ptr [rcx + {ENABLED}], 0
.Lalive:
    return_slowly

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

# On cache lines of their own: they are read as data at every call.
    .balign 64, 0xcc
.Lcontrol:
    .quad 0
.Ltable:
    .quad 0
    .balign 64, 0
.Lorig:
    .fill {MAX_HOOKS}, 8, 0
.Lend:
