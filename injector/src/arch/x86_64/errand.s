# The errand: what a thread of the target does for us at the entry of an allocation function.
#
# It comes from a gate, in place of the function, with r10 and r11 as every hook keeps them; r11
# leads to the cell that says where to go on, r10 to the control page. If no errand is wanted,
# nothing happens. If one is, the first thread to come claims it, and waits, for a short while,
# whether we grant it: whether this is a place where a program may call its loader cannot be told
# from here. Whatever becomes of us meanwhile, it goes on to the function in the end, with every
# register and errno as they were.

# Global: what refers to them may be compiled to another object.
.globl heapattach_errand, heapattach_errand_end
.hidden heapattach_errand, heapattach_errand_end
heapattach_errand:
    cmp dword ptr [r10 + {BLOCK} + {STATE}], {WANTED}
    jne 9f
    mov [rsp - 40], rax
    mov [rsp - 48], rcx
    mov eax, {WANTED}
    mov ecx, {CLAIMED}
    lock cmpxchg [r10 + {BLOCK} + {STATE}], ecx
    mov rcx, [rsp - 48]
    mov rax, [rsp - 40]
    je 1f
9:  mov r11, [r11]
    mov [rsp - 8], r11
    mov r11, [rsp - 32]
    mov r10, [rsp - 24]
    jmp [rsp - 8]

# Claimed. What must survive lies in a frame whose layout crate::arch::SAVED tells.
1:  lea rsp, [rsp - 64]
    push rax
    push rcx
    push rdx
    push rsi
    push rdi
    push r8
    push r9
    push rbp
    push rbx
    push r12
    push r13
    push r14
    push r15
    push r11
    lea rbx, [r10 + {BLOCK}]
    mov r13, rsp
    mov rax, fs:[0]
    mov [rbx + {THREAD}], rax
    mov [rbx + {STACK}], rsp
    mov r14, [rbx + {PATIENCE}]
    mov dword ptr [rbx + {STATE}], {PARKED}

2:  mov eax, [rbx + {STATE}]
    cmp eax, {GRANTED}
    je 3f
    cmp eax, {PARKED}                   # refused; or this is a child, whose page reads zero
    jne 8f
    pause
    dec r14
    jg 2b
    mov eax, {PARKED}                   # no answer comes
    xor ecx, ecx
    lock cmpxchg [rbx + {STATE}], ecx
    jne 2b

8:  mov rsp, r13
    pop r11
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    pop rbp
    pop r9
    pop r8
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rax
    lea rsp, [rsp + 64]
    jmp 9b

# Granted. No signal handler comes in between: one that jumps away would leave the loader locked.
3:  mov dword ptr [rbx + {STATE}], {RUNNING}
    mov eax, {SIGPROCMASK}
    xor edi, edi
    lea rsi, [rbx + {BLOCKED}]
    lea rdx, [rbx + {MASK}]
    mov r10d, 8
    syscall
    and rsp, -64
    sub rsp, [rbx + {VECTOR_BYTES}]
    mov r15, rsp
    mov eax, [rbx + {VECTORS}]
    mov edx, [rbx + {VECTORS} + 4]
    test eax, eax
    jz 4f
    xor ecx, ecx
    mov [r15 + 512], rcx                # the head of the area; xsave leaves a part of it alone
    mov [r15 + 520], rcx
    mov [r15 + 528], rcx
    mov [r15 + 536], rcx
    mov [r15 + 544], rcx
    mov [r15 + 552], rcx
    mov [r15 + 560], rcx
    mov [r15 + 568], rcx
    xsave64 [r15]
    jmp 5f
4:  fxsave64 [r15]
5:  call [rbx + {ERRNO}]
    mov r14, rax
    mov eax, [rax]
    mov [rbx + {OLD_ERRNO}], eax
    mov rdi, [rbx + {ARGUMENTS}]
    mov rsi, [rbx + {ARGUMENTS} + 8]
    mov rdx, [rbx + {ARGUMENTS} + 16]
    mov rcx, [rbx + {ARGUMENTS} + 24]
    mov r8, [rbx + {ARGUMENTS} + 32]
    call [rbx + {FUNCTION}]
    mov [rbx + {RESULT}], rax
    mov rax, [rbx + {ERROR}]
    test rax, rax
    jz 7f
    call rax
    test rax, rax
    jz 7f
    xor ecx, ecx
6:  mov dl, [rax + rcx]
    mov [rbx + rcx + {MESSAGE}], dl
    test dl, dl
    jz 7f
    inc ecx
    cmp ecx, {MESSAGE_BYTES} - 1
    jb 6b
7:  mov eax, [rbx + {OLD_ERRNO}]
    mov [r14], eax
    mov edi, [rbx + {DESCRIPTOR}]
    test edi, edi
    js 5f
    mov eax, {CLOSE}
    syscall
5:  mov eax, [rbx + {VECTORS}]
    mov edx, [rbx + {VECTORS} + 4]
    test eax, eax
    jz 6f
    xrstor64 [r15]
    jmp 7f
6:  fxrstor64 [r15]
7:  mov rsp, r13
    mov eax, {SIGPROCMASK}
    mov edi, 2
    lea rsi, [rbx + {MASK}]
    xor edx, edx
    mov r10d, 8
    syscall
    mov dword ptr [rbx + {STATE}], {DONE}
    jmp 8b
heapattach_errand_end:
