/* The context switch for x86-64, System V calling convention. Contracts: context.h and INVARIANTS.md, C1–C8.

   The frame, from the saved stack pointer upwards (64 bytes):

        0  mxcsr (4 bytes), x87 control word (2), unused (2)
        8  r15
       16  r14
       24  r13
       32  r12
       40  rbx
       48  rbp
       56  where to continue

   Why `jmp` and not `ret`: the processor predicts a `ret` from the calls it has seen, and after a change of
   stacks that guess is wrong every time, which costs more than the whole switch. The jump is predicted by its
   own history. `notrack`: it lands behind a call, where no `endbr64` stands.

   Why the control words are compared before they are loaded: reading them is cheap, loading them is not, and
   they are nearly always equal. Of mxcsr only the control bits count (C2): the exception flags below them are
   not preserved by any call.

   Shadow stacks (CET SHSTK) are not supported: the note at the end claims IBT alone, so that a linker leaves
   them off. */

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

        .macro  PUSH register
        pushq   %\register
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset \register, 0
        .endm

        /* Builds the frame on the running stack; the return address of the call is its last word. */
        .macro  SAVE
        PUSH    rbp
        PUSH    rbx
        PUSH    r12
        PUSH    r13
        PUSH    r14
        PUSH    r15
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        stmxcsr (%rsp)
        fnstcw  4(%rsp)
        .endm

        /* Goes to 1: if the frame at rsp wants other control words than edx (mxcsr) and ecx (x87). */
        .macro  COMPARE
        movl    (%rsp), %r8d
        xorl    %edx, %r8d
        testl   $MXCSR_CONTROL, %r8d
        jne     1f
        cmpw    4(%rsp), %cx
        jne     1f
        .endm

        /* Leaves through the frame at rsp, all but the control words. */
        .macro  LEAVE
        movq    8(%rsp), %r15
        movq    16(%rsp), %r14
        movq    24(%rsp), %r13
        movq    32(%rsp), %r12
        movq    40(%rsp), %rbx
        movq    48(%rsp), %rbp
        movq    56(%rsp), %r8
        addq    $64, %rsp
        .cfi_remember_state
        .cfi_def_cfa rsp, 0
        .cfi_register rip, r8
        notrack jmp *%r8
        .cfi_restore_state
        .endm

        .text

/* rdi save, rsi load, rdx value */
        FUNCTION context_switch
        SAVE
        movq    %rdx, %rax
        movl    (%rsp), %edx
        movzwl  4(%rsp), %ecx
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
        COMPARE
0:      LEAVE
1:      ldmxcsr (%rsp)
        fldcw   4(%rsp)
        jmp     0b
        END context_switch

/* rdi load, rsi value. The return address is of no use any more: its place takes the control words. */
        FUNCTION context_jump
        .cfi_undefined rip
        movq    %rsi, %rax
        stmxcsr (%rsp)
        fnstcw  4(%rsp)
        movl    (%rsp), %edx
        movzwl  4(%rsp), %ecx
        movq    %rdi, %rsp
        COMPARE
0:      LEAVE
1:      ldmxcsr (%rsp)
        fldcw   4(%rsp)
        jmp     0b
        END context_jump

/* rdi load, rsi value. Reads and writes nothing but the frame: rsp may stand in a guard. */
        FUNCTION context_abandon
        .cfi_undefined rip
        movq    %rsi, %rax
        movq    %rdi, %rsp
        cld
        fnclex
        emms
        ldmxcsr (%rsp)
        fldcw   4(%rsp)
        LEAVE
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

/* The lowest frame of every fiber: unwinders end here, because the return address is said to be undefined.
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

/* rdi save, rsi body, rdx arg. The body keeps the registers itself, so the way back in order only drops the
   frame, and `ret` is right: it belongs to the caller's own call. */
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

        .section .note.GNU-stack, "", @progbits

        .section .note.gnu.property, "a", @note
        .p2align 3
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000002, 4, 1, 0
