/* The context switch for x86-64, System V calling convention. Contracts: context.h and INVARIANTS.md, SWITCH-1 to SWITCH-9.

   The frame, from the saved stack pointer upwards (64 bytes):

        0  mxcsr (4 bytes), x87 control word (2), unused (2)
        8  r15
       16  r14
       24  r13
       32  r12
       40  rbx
       48  rbp
       56  where to continue

   Why `jmp`, and sometimes `ret`: the processor predicts a `ret` from the calls that it has seen. After a change of
   stacks this prediction is wrong, which costs more than the whole switch. There is one exception: both tasks, the one
   that stops and the one that continues, made the same call, for example in the same waiting function. Then the
   prediction is right, and `ret` takes the call off the processor's list, so that the returns of the functions around it are predicted
   too. Everywhere else a jump is better: it is predicted by its own history. `notrack`: the jump lands behind a call,
   where there is no `endbr64`.

   Why control words are compared before they are loaded: they are nearly always equal. Loading the x87 word is expensive
   on every processor. Of mxcsr only the control bits count (SWITCH-2); no call preserves the exception flags below them.
   On Intel's processors a load that changes only these flags takes 70 ns. On AMD's processors a load is free, but reading
   what was just stored costs a quarter of the switch. `context_compares` (fiber.c) says which kind this processor is.

   Shadow stacks (CET SHSTK) are not supported: the note at the end claims only IBT, so a linker leaves them off. */

#define MXCSR_CONTROL 0xffc0
#define MXCSR_DEFAULT 0x1f80
#define X87_DEFAULT   0x037f

        .macro  FUNCTION name
        .p2align 4
        .globl  \name
        .hidden \name
        .type   \name, @function
\name:
        .cfi_startproc
        endbr64
        .endm

        .macro  END name
        .cfi_endproc
        .size   \name, . - \name
        .endm

        /* Builds the frame on the running stack. Its last word is the return address of the call. */
        .macro  SAVE
        leaq    -56(%rsp), %rsp
        .cfi_adjust_cfa_offset 56
        stmxcsr (%rsp)
        movq    %r15, 8(%rsp)
        .cfi_rel_offset r15, 8
        movq    %r14, 16(%rsp)
        .cfi_rel_offset r14, 16
        movq    %r13, 24(%rsp)
        .cfi_rel_offset r13, 24
        movq    %r12, 32(%rsp)
        .cfi_rel_offset r12, 32
        movq    %rbx, 40(%rsp)
        .cfi_rel_offset rbx, 40
        movq    %rbp, 48(%rsp)
        .cfi_rel_offset rbp, 48
        fnstcw  4(%rsp)
        .endm

        /* Loads control words and registers from the frame at rsp. r10 points at the present control words. */
        .macro  RESTORE
        cmpb    $0, context_compares(%rip)
        jne     5f
        ldmxcsr (%rsp)
4:      movzwl  4(%r10), %ecx
        cmpw    4(%rsp), %cx
        jne     1f
0:      movq    8(%rsp), %r15
        movq    16(%rsp), %r14
        movq    24(%rsp), %r13
        movq    32(%rsp), %r12
        movq    40(%rsp), %rbx
        movq    48(%rsp), %rbp
        .endm

        /* Leaves the frame at rsp by a jump to r8, the address in its last word. */
        .macro  LEAVE
        leaq    64(%rsp), %rsp
        .cfi_remember_state
        .cfi_def_cfa rsp, 0
        .cfi_register rip, r8
        notrack jmp *%r8
        .cfi_restore_state
        .endm

        /* The rare branches of RESTORE: 5 compares mxcsr, 1 loads the x87 control word. */
        .macro  RESTORE_RARE
5:      movl    (%r10), %ecx
        xorl    (%rsp), %ecx
        testl   $MXCSR_CONTROL, %ecx
        je      4b
        ldmxcsr (%rsp)
        jmp     4b
1:      fldcw   4(%rsp)
        jmp     0b
        .endm

        .text

/* rdi save, rsi load, rdx value */
        FUNCTION context_switch
        movq    (%rsp), %r9
        SAVE
        movq    %rdx, %rax
        movq    %rsp, %r10
        movq    %rsp, (%rdi)
        movq    56(%rsi), %r8
        movq    %rsi, %rsp
        RESTORE
        cmpq    %r8, %r9
        je      2f
        LEAVE
2:      leaq    56(%rsp), %rsp
        .cfi_remember_state
        .cfi_adjust_cfa_offset -56
        ret
        .cfi_restore_state
        RESTORE_RARE
        END context_switch

/* rdi load, rsi value. The return address is not needed any more: the control words are stored in its place. */
        FUNCTION context_jump
        .cfi_undefined rip
        movq    %rsi, %rax
        stmxcsr (%rsp)
        fnstcw  4(%rsp)
        movq    %rsp, %r10
        movq    56(%rdi), %r8
        movq    %rdi, %rsp
        RESTORE
        LEAVE
        RESTORE_RARE
        END context_jump

/* rdi load, rsi value. Reads and writes only the frame: rsp may point into a guard. */
        FUNCTION context_abandon
        .cfi_undefined rip
        movq    %rsi, %rax
        movq    %rdi, %rsp
        cld
        fnclex
        emms
        ldmxcsr (%rsp)
        fldcw   4(%rsp)
        movq    %rsp, %r10
        movq    56(%rsp), %r8
        RESTORE
        LEAVE
        RESTORE_RARE
        END context_abandon

/* rdi save, rsi top, rdx entry, rcx arg */
        FUNCTION context_start
        SAVE
        movl    (%rsp), %eax
        movzwl  4(%rsp), %r8d
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
        jmp     context_root
        END context_start

/* The lowest frame of every fiber: unwinders end here, because the return address is marked undefined.
   eax mxcsr, r8d x87 control word, rdx entry, rcx arg */
        .p2align 4
        .type   context_root, @function
context_root:
        .cfi_startproc
        .cfi_undefined rip
        .cfi_undefined rbp
        xorl    %ebp, %ebp
        andl    $MXCSR_CONTROL, %eax
        cmpl    $MXCSR_DEFAULT, %eax
        jne     1f
        cmpl    $X87_DEFAULT, %r8d
        jne     1f
0:      movq    %rcx, %rdi
        call    *%rdx
        ud2
1:      movl    $MXCSR_DEFAULT, -8(%rsp)
        ldmxcsr -8(%rsp)
        movw    $X87_DEFAULT, -8(%rsp)
        fldcw   -8(%rsp)
        jmp     0b
        END context_root

/* rdi save, rsi body, rdx arg. The body keeps the registers itself, so a normal return only drops the frame. The
   `ret` is predicted: it belongs to the caller's own call. */
        FUNCTION context_call
        SAVE
        movq    %rsp, (%rdi)
        movq    %rdx, %rdi
        call    *%rsi
        xorl    %eax, %eax
        addq    $56, %rsp
        .cfi_adjust_cfa_offset -56
        ret
        END context_call

/* rdi body, rsi a, rdx b. The body returns its answer in rax, and in rdx the predicted address of a `ret`. */
        FUNCTION context_visit
        movq    %rdi, %rax
        movq    %rsi, %rdi
        movq    %rdx, %rsi
        movq    (%rsp), %rdx
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    *%rax
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        cmpq    %rdx, (%rsp)
        jne     1f
        ret
1:      popq    %rcx
        .cfi_adjust_cfa_offset -8
        .cfi_register rip, rcx
        notrack jmp *%rcx
        END context_visit

        .section .note.GNU-stack, "", @progbits

        .section .note.gnu.property, "a", @note
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000002, 4, 1, 0
