/* uint64_t registers_around(void (*middle)(void *), void *arg, uint64_t seed)
   Fills every callee-saved register with a value of its own, calls middle(arg), and returns a word with one bit
   for each register that was changed. */

        .text
        .globl  registers_around
        .type   registers_around, %function
registers_around:
        .cfi_startproc
        sub     sp, sp, #176
        .cfi_adjust_cfa_offset 176
        stp     x19, x20, [sp, #0]
        stp     x21, x22, [sp, #16]
        stp     x23, x24, [sp, #32]
        stp     x25, x26, [sp, #48]
        stp     x27, x28, [sp, #64]
        stp     x29, x30, [sp, #80]
        .cfi_rel_offset x29, 80
        .cfi_rel_offset x30, 88
        stp     d8, d9, [sp, #96]
        stp     d10, d11, [sp, #112]
        stp     d12, d13, [sp, #128]
        stp     d14, d15, [sp, #144]
        str     x2, [sp, #160]
        .irp    number, 19,20,21,22,23,24,25,26,27,28,29
        add     x\number, x2, #\number
        .endr
        .irp    number, 8,9,10,11,12,13,14,15
        add     x9, x2, #\number
        fmov    d\number, x9
        .endr
        mov     x9, x0
        mov     x0, x1
        blr     x9
        ldr     x2, [sp, #160]
        mov     x0, xzr
        .irp    number, 19,20,21,22,23,24,25,26,27,28,29
        add     x10, x2, #\number
        cmp     x\number, x10
        cset    x11, ne
        orr     x0, x0, x11, lsl #\number
        .endr
        .irp    number, 8,9,10,11,12,13,14,15
        add     x10, x2, #\number
        fmov    x9, d\number
        cmp     x9, x10
        cset    x11, ne
        orr     x0, x0, x11, lsl #(32 + \number)
        .endr
        ldp     x19, x20, [sp, #0]
        ldp     x21, x22, [sp, #16]
        ldp     x23, x24, [sp, #32]
        ldp     x25, x26, [sp, #48]
        ldp     x27, x28, [sp, #64]
        ldp     x29, x30, [sp, #80]
        ldp     d8, d9, [sp, #96]
        ldp     d10, d11, [sp, #112]
        ldp     d12, d13, [sp, #128]
        ldp     d14, d15, [sp, #144]
        add     sp, sp, #176
        .cfi_adjust_cfa_offset -176
        ret
        .cfi_endproc
        .size   registers_around, . - registers_around
        .section .note.GNU-stack, "", %progbits
