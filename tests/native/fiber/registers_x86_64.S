/* uint64_t registers_around(void (*middle)(void *), void *arg, uint64_t seed)
   Fills every callee-saved register with a value of its own, calls middle(arg), and returns a word with one bit
   for each register that was changed. */

        .text
        .globl  registers_around
        .type   registers_around, @function
registers_around:
        .cfi_startproc
        pushq   %rbp
        pushq   %rbx
        pushq   %r12
        pushq   %r13
        pushq   %r14
        pushq   %r15
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 56
        movq    %rdx, (%rsp)
        leaq    1(%rdx), %rbp
        leaq    2(%rdx), %rbx
        leaq    3(%rdx), %r12
        leaq    4(%rdx), %r13
        leaq    5(%rdx), %r14
        leaq    6(%rdx), %r15
        movq    %rdi, %rax
        movq    %rsi, %rdi
        call    *%rax
        movq    (%rsp), %rdx
        xorl    %eax, %eax
        .macro  COMPARE register number
        leaq    \number(%rdx), %rcx
        cmpq    %rcx, \register
        je      1f
        orq     $1 << \number, %rax
1:
        .endm
        COMPARE %rbp 1
        COMPARE %rbx 2
        COMPARE %r12 3
        COMPARE %r13 4
        COMPARE %r14 5
        COMPARE %r15 6
        addq    $8, %rsp
        popq    %r15
        popq    %r14
        popq    %r13
        popq    %r12
        popq    %rbx
        popq    %rbp
        .cfi_adjust_cfa_offset -56
        ret
        .cfi_endproc
        .size   registers_around, . - registers_around
        .section .note.GNU-stack, "", @progbits
