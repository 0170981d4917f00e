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
    je 3f                               # MEMPOOL_TRIM(pool, ..): what is in it is not known any more
    dec rax
    je 3f                               # MOVE_MEMPOOL(pool, ..)
    dec rax
    je 6f                               # MEMPOOL_CHANGE(pool, old, block, bytes)
    sub rax, 2
    je 7f                               # RESIZEINPLACE_BLOCK(block, old bytes, bytes, ..)
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

# What hooks jump to: a block is allocated where it was said, and nothing else is to be done.
    .balign 16
.Lheapattach_request_allocated:
    mov rax, rdi
    ret
    .balign 16
.Lheapattach_request_done:
    ret
heapattach_requests_end:
