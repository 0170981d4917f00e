# What stands in for LeakSanitizer's functions in a program that refers to them weakly: it lies in the
# stub page, for as long as the program lives, and is never run here. Position independent.
#
# While no check watches, each returns at once. While one does, they say what they are told by calls of
# munmap that the kernel refuses, since the address is in the middle of a page: the hooks record them in
# their place among the thread's allocations. errno is as it was.

# Global: what refers to them may be compiled to another object.
.globl heapattach_lsan, heapattach_lsan_end
.hidden heapattach_lsan, heapattach_lsan_end
heapattach_lsan:
.Lheapattach_lsan_words:
    .zero {DATA_BYTES}

# void disable(void), void enable(void)
    .balign {ALIGN}
    endbr64
    mov esi, {BEGIN}
    xor edi, edi
    jmp 2f
    .balign {ALIGN}
    endbr64
    mov esi, {END}
    xor edi, edi
    jmp 2f

# void ignore_object(const void *block)
    .balign {ALIGN}
    endbr64
    mov esi, {IGNORE}
    jmp 2f

# void register_root_region(const void *start, size_t bytes), void unregister_root_region(.., ..)
    .balign {ALIGN}
    endbr64
    jmp 6f
    .balign {ALIGN}
    endbr64
    mov esi, {NO_ROOT}
    jmp 2f

# void do_leak_check(void), int do_recoverable_leak_check(void): the same code
    .balign {ALIGN}
    endbr64
    jmp 3f

6:  push rsi
    mov esi, {ROOT}
    call 2f
    pop rdi
    add rdi, 7
    mov esi, {BYTES}

# Says the word in esi with the value in rdi.
2:  test byte ptr [rip + .Lheapattach_lsan_words + {WATCH}], {CHECKS}
    je 9f
    push rbx
    push rbp
    sub rsp, 24
    and rdi, -8
    or rdi, 1
    mov [rsp], rdi
    mov [rsp + 8], rsi
    call qword ptr [rip + .Lheapattach_lsan_words + {ERRNO}]
    mov rbx, rax
    mov ebp, [rax]
    mov rdi, [rsp]
    mov rsi, [rsp + 8]
    call qword ptr [rip + .Lheapattach_lsan_words + {MUNMAP}]
    mov [rbx], ebp
    add rsp, 24
    pop rbp
    pop rbx
9:  ret

# Requests a check, and waits until it has a result; answers 1 if that is a leak.
3:  test byte ptr [rip + .Lheapattach_lsan_words + {WATCH}], {CHECKS}
    je 8f
    push rbx
    push rbp
    sub rsp, 8
    # A forked child has the word of its parent, and no session.
    mov eax, {GETPID}
    syscall
    cmp eax, [rip + .Lheapattach_lsan_words + {WATCH} + 4]
    jne 7f
    mov ebx, [rip + .Lheapattach_lsan_words + {ANSWERED}]
    mov esi, {CHECK}
    xor edi, edi
    call 2b
    mov ebp, {PATIENCE}
4:  cmp ebx, [rip + .Lheapattach_lsan_words + {ANSWERED}]
    jne 5f
    test byte ptr [rip + .Lheapattach_lsan_words + {WATCH}], {CHECKS}
    je 7f
    mov eax, {POLL}
    xor edi, edi
    xor esi, esi
    mov edx, 1
    syscall
    dec ebp
    jne 4b
7:  xor eax, eax
    jmp 99f
5:  mov eax, [rip + .Lheapattach_lsan_words + {LEAKED}]
99: add rsp, 8
    pop rbp
    pop rbx
    ret
8:  xor eax, eax
    ret
heapattach_lsan_end:
