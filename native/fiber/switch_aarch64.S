/* The context switch for AArch64, AAPCS64. Contracts: context.h and INVARIANTS.md, SWITCH-1 to SWITCH-8.

   The frame, from the saved stack pointer upwards (176 bytes):

        0  x19 x20      48  x25 x26     96  d8  d9
       16  x21 x22      64  x27 x28    112  d10 d11
       32  x23 x24      80  x29 x30    128  d12 d13
                                       144  d14 d15
                                       160  fpcr, unused

   x18 belongs to the platform and is not touched. FPSR is not kept: no call keeps it. FPCR is compared before it is
   written, because writing it is slow, and the values are nearly always equal.

   The switch leaves by `ret`: with branch target identification a `br` would need a landing pad behind every call of
   these functions. */

#define FRAME 176
#define FPCR  160

        .macro  FUNCTION name
        .p2align 4
        .globl  \name
        .hidden \name
        .type   \name, %function
\name:
        .cfi_startproc
        hint    #34                     /* bti c */
        .endm

        .macro  END name
        .cfi_endproc
        .size   \name, . - \name
        .endm

        .macro  SAVE
        sub     sp, sp, #FRAME
        .cfi_adjust_cfa_offset FRAME
        stp     x19, x20, [sp, #0]
        stp     x21, x22, [sp, #16]
        stp     x23, x24, [sp, #32]
        stp     x25, x26, [sp, #48]
        stp     x27, x28, [sp, #64]
        stp     x29, x30, [sp, #80]
        stp     d8,  d9,  [sp, #96]
        stp     d10, d11, [sp, #112]
        stp     d12, d13, [sp, #128]
        stp     d14, d15, [sp, #144]
        .cfi_rel_offset x19, 0
        .cfi_rel_offset x20, 8
        .cfi_rel_offset x21, 16
        .cfi_rel_offset x22, 24
        .cfi_rel_offset x23, 32
        .cfi_rel_offset x24, 40
        .cfi_rel_offset x25, 48
        .cfi_rel_offset x26, 56
        .cfi_rel_offset x27, 64
        .cfi_rel_offset x28, 72
        .cfi_rel_offset x29, 80
        .cfi_rel_offset x30, 88
        mrs     x9, fpcr
        str     x9, [sp, #FPCR]
        .endm

        /* Leaves through the frame at sp. x9 holds the present fpcr. */
        .macro  LEAVE
        ldr     x10, [sp, #FPCR]
        cmp     x9, x10
        b.eq    1f
        msr     fpcr, x10
1:      ldp     x19, x20, [sp, #0]
        ldp     x21, x22, [sp, #16]
        ldp     x23, x24, [sp, #32]
        ldp     x25, x26, [sp, #48]
        ldp     x27, x28, [sp, #64]
        ldp     x29, x30, [sp, #80]
        ldp     d8,  d9,  [sp, #96]
        ldp     d10, d11, [sp, #112]
        ldp     d12, d13, [sp, #128]
        ldp     d14, d15, [sp, #144]
        add     sp, sp, #FRAME
        .cfi_remember_state
        .cfi_def_cfa sp, 0
        .cfi_restore x30
        ret
        .cfi_restore_state
        .endm

        .text

/* x0 save, x1 load, x2 value */
        FUNCTION context_switch
        SAVE
        mov     x10, sp
        str     x10, [x0]
        mov     sp, x1
        mov     x0, x2
        LEAVE
        END context_switch

/* x0 load, x1 value */
        FUNCTION context_jump
        mrs     x9, fpcr
        mov     sp, x0
        .cfi_undefined x30
        mov     x0, x1
        LEAVE
        END context_jump

/* x0 load, x1 value. On this machine nothing must be cleared, and the jump touches only the frame. */
        FUNCTION context_abandon
        .cfi_undefined x30
        b       context_jump
        END context_abandon

/* x0 save, x1 top, x2 entry, x3 arg */
        FUNCTION context_start
        SAVE
        mov     x10, sp
        str     x10, [x0]
        mov     sp, x1
        b       context_root
        END context_start

/* The lowest frame of every fiber: unwinders end here, because the return address is marked undefined.
   x9 fpcr, x2 entry, x3 arg */
        .p2align 4
        .type   context_root, %function
context_root:
        .cfi_startproc
        .cfi_undefined x30
        .cfi_undefined x29
        mov     x29, xzr
        mov     x30, xzr
        cbz     x9, 1f
        msr     fpcr, xzr
1:      mov     x0, x3
        blr     x2
        brk     #1
        END context_root

/* x0 save, x1 body, x2 arg. The body keeps the registers itself; only the return address must be read back. */
        FUNCTION context_call
        SAVE
        mov     x10, sp
        str     x10, [x0]
        mov     x0, x2
        blr     x1
        mov     x0, xzr
        ldr     x30, [sp, #88]
        .cfi_restore x30
        add     sp, sp, #FRAME
        .cfi_adjust_cfa_offset -FRAME
        ret
        END context_call

        .section .note.GNU-stack, "", %progbits

        .section .note.gnu.property, "a", %note
        .p2align 3
        .word   4, 16, 5
        .asciz  "GNU"
        .word   0xc0000000, 4, 1, 0
