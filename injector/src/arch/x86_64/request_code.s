# What hears valgrind's client requests: it lies in our home, where a jump leads in the place of each request,
# and is never run here. Position independent.
#
# A site's own part keeps away from the 128 bytes below the stack pointer, which a function that calls none may
# use, and calls the common part with the address of the request's words in rax:
#
#   lea rsp, [rsp - 128]; call common; lea rsp, [rsp + 128]; jmp [rip]; .quad behind the request
#
# The common part calls hooks as a program calls functions, with where the program is above the return address
# (heapattach_abi::frame::TOLD_CODE). Every register is as it was, the flags too.

.globl heapattach_requests, heapattach_requests_end
.hidden heapattach_requests, heapattach_requests_end
heapattach_requests:
.Lheapattach_request_words:
    .zero {DATA_BYTES}

    .balign 16
.Lheapattach_request_common:
    pushfq
    push rax
    push rcx
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    push r10
    push r11
    push rbx
    push r12
    mov rbx, rax
    mov r12, rsp
    mov rcx, [rsp + 12 * 8]             # into the site's part
    mov rcx, [rcx + {BEHIND_AT}]
    lea rdx, [rsp + 13 * 8 + 128]
    and rsp, -16
    push rdx                            # TOLD_STACK
    push rcx                            # TOLD_CODE
    mov rax, [rbx]
    mov rdi, [rbx + 8]
    mov rsi, [rbx + 16]
    sub rax, 0x1301
    je 1f                               # MALLOCLIKE_BLOCK(block, bytes, ..)
    dec rax
    je 2f                               # FREELIKE_BLOCK(block, ..)
    sub rax, 2
    je 3f                               # DESTROY_MEMPOOL(pool)
    dec rax
    je 4f                               # MEMPOOL_ALLOC(pool, block, bytes)
    dec rax
    je 5f                               # MEMPOOL_FREE(pool, block)
    dec rax
    je 12f                              # MEMPOOL_TRIM(pool, start, bytes)
    dec rax
    je 13f                              # MOVE_MEMPOOL(pool, other)
    dec rax
    je 6f                               # MEMPOOL_CHANGE(pool, old, block, bytes)
    sub rax, 2
    je 7f                               # RESIZEINPLACE_BLOCK(block, old bytes, bytes, ..)
    mov eax, [rbx]
    sub eax, 0x4d430006
    je 8f                               # DO_LEAK_CHECK(..)
    lea rsi, [rip + .Lheapattach_request_words + {FOUND}]
    dec eax
    je 20f                              # COUNT_LEAKS(&leaked, &dubious, &reachable, &suppressed): bytes
    add rsi, 32
    sub eax, 5
    je 20f                              # COUNT_LEAK_BLOCKS(..): blocks
9:  mov rsp, r12
    pop r12
    pop rbx
    pop r11
    pop r10
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rax
    popfq
    ret
1:  call [rip + .Lheapattach_request_words + {ALLOCATED}]
    jmp 9b
5:  mov rdi, rsi
2:  call [rip + .Lheapattach_request_words + {FREED}]
    jmp 9b
3:  call [rip + .Lheapattach_request_words + {DESTROYED}]
    jmp 9b
6:  mov rdi, rsi
    call [rip + .Lheapattach_request_words + {FREED}]
    mov rdi, [rbx + 8]
    call [rip + .Lheapattach_request_words + {POOL}]
    mov rdi, [rbx + 24]
    mov rsi, [rbx + 32]
    jmp 1b
4:  call [rip + .Lheapattach_request_words + {POOL}]
    mov rdi, [rbx + 16]
    mov rsi, [rbx + 24]
    jmp 1b
7:  call [rip + .Lheapattach_request_words + {FREED}]
    mov rdi, [rbx + 8]
    mov rsi, [rbx + 24]
    jmp 1b

12: call [rip + .Lheapattach_request_words + {POOL}]
    mov rdi, [rbx + 16]
    mov rsi, [rbx + 24]
    cmp rdi, 1                          # null is no block
    adc rdi, 0
    call [rip + .Lheapattach_request_words + {TRIMMED}]
    jmp 9b
13: call [rip + .Lheapattach_request_words + {POOL}]
    mov rdi, [rbx + 16]
    call [rip + .Lheapattach_request_words + {MOVED}]
    jmp 9b

# A check is requested where one can be made, and waited for until it has a result.
8:  test byte ptr [rip + .Lheapattach_request_words + {WATCH}], {CHECKS}
    je 9b
    # A forked child has the word of its parent, and no session.
    mov eax, {GETPID}
    syscall
    cmp eax, [rip + .Lheapattach_request_words + {WATCH} + 4]
    jne 9b
    push r13
    push r14
    push qword ptr [rsp + 24]           # TOLD_STACK
    push qword ptr [rsp + 24]           # TOLD_CODE
    mov r13d, [rip + .Lheapattach_request_words + {ANSWERED}]
    mov rdi, rbx
    call [rip + .Lheapattach_request_words + {CHECKED}]
    mov r14d, {PATIENCE}
10: cmp r13d, [rip + .Lheapattach_request_words + {ANSWERED}]
    jne 11f
    test byte ptr [rip + .Lheapattach_request_words + {WATCH}], {CHECKS}
    je 11f
    mov eax, {POLL}
    xor edi, edi
    xor esi, esi
    mov edx, 1
    syscall
    dec r14d
    jne 10b
11: add rsp, 16
    pop r14
    pop r13
    jmp 9b

# What the last check found goes where the program has room for it.
20: test byte ptr [rip + .Lheapattach_request_words + {WATCH}], {CHECKS}
    je 9b
    lea rdi, [rbx + 8]
    lea rdx, [rsi + 32]
21: mov rcx, [rdi]
    test rcx, rcx
    je 22f
    mov rax, [rsi]
    mov [rcx], rax
22: add rdi, 8
    add rsi, 8
    cmp rsi, rdx
    jne 21b
    jmp 9b

# What hooks jump to: a block is allocated where it was said, and nothing else is to be done.
    .balign 16
.Lheapattach_request_allocated:
    mov rax, rdi
    ret
    .balign 16
.Lheapattach_request_done:
    ret
heapattach_requests_end:
