/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The code that enabled call sites call, for arm64 with -fpatchable-function-entry.
 *
 * void ftrace_caller(void)
 * void ftrace_regs_caller(void)
 *
 * Not C functions: they are called by the second instruction of the traced
 * function, which has no frame yet. Its first instruction has copied its return
 * address from x30 to x9. Both call, through the one slot at ftrace_call,
 *
 *     void tracer(unsigned long ip, unsigned long parent_ip,
 *                 struct ftrace_ops *op, struct pt_regs *regs)
 *
 * from ftrace_regs_caller with the registers at the traced function's entry as
 * `regs`, from ftrace_caller with NULL.
 *
 * On entry   x30: the return address of the site's call; x9: x30 before it;
 *            all arguments of the traced function in x0..x7; x8, the address
 *            for its result; x18, the static chain
 * Keeps      x0..x8 and x18, and restores x30; x19..x29 because the tracer
 *            does; after ftrace_regs_caller all but x9
 * Clobbers   x9, by which it returns; ftrace_caller x10..x17 and the flags, on
 *            which no function may depend
 *
 * The stack at ftrace_call, lowest address at the bottom. Two frame records, as
 * if the traced function had made its own already, keep the chain of x29 whole.
 *
 *     sp + 320   sp of the traced function's caller
 *     sp + 312   x0: the tracer's first argument              ip
 *     sp + 304   regs, for the return
 *     sp + 296   x9: the traced function's return address   parent_ip
 *     sp + 288   x29 of its caller                          its frame record
 *     sp + 280   x30: return address of ftrace_caller       ip + MCOUNT_INSN_SIZE
 *     sp + 272   sp + 288                                   this frame record: x29
 *     sp + 264   pstate
 *     sp + 256   pc
 *     sp + 248   sp
 *     sp         x0 ... x30                                 struct user_pt_regs
 */
        .globl ftrace_regs_caller
ftrace_regs_caller:
        str     x10, [sp, #-16]!
        ldr     w10, function_trace_stop
        cbnz    w10, stopped_regs
        ldr     x10, [sp], #16

        sub     sp, sp, #320
        stp     x0, x1, [sp]
        stp     x2, x3, [sp, #16]
        stp     x4, x5, [sp, #32]
        stp     x6, x7, [sp, #48]
        stp     x8, x9, [sp, #64]
        stp     x10, x11, [sp, #80]
        stp     x12, x13, [sp, #96]
        stp     x14, x15, [sp, #112]
        stp     x16, x17, [sp, #128]
        stp     x18, x19, [sp, #144]
        stp     x20, x21, [sp, #160]
        stp     x22, x23, [sp, #176]
        stp     x24, x25, [sp, #192]
        stp     x26, x27, [sp, #208]
        stp     x28, x29, [sp, #224]
        mrs     x10, nzcv
        mrs     x11, daif
        mrs     x12, currentel
        mrs     x13, spsel
        orr     x10, x10, x11
        orr     x12, x12, x13
        orr     x10, x10, x12                   // pstate
        add     x11, sp, #320
        stp     x9, x11, [sp, #240]
        stp     x30, x10, [sp, #256]            // pc: after the site, as in the kernel
        mov     x3, sp
        b       ftrace_common

        .globl ftrace_caller
ftrace_caller:
        /* HAVE_FUNCTION_TRACE_MCOUNT_TEST */
        ldr     w10, function_trace_stop
        cbnz    w10, stopped

        sub     sp, sp, #320
        stp     x0, x1, [sp]
        stp     x2, x3, [sp, #16]
        stp     x4, x5, [sp, #32]
        stp     x6, x7, [sp, #48]
        str     x8, [sp, #64]
        str     x18, [sp, #144]
        str     x29, [sp, #232]
        str     x9, [sp, #240]
        mov     x3, xzr

ftrace_common:
        stp     x29, x9, [sp, #288]
        add     x29, sp, #288
        stp     x29, x30, [sp, #272]
        add     x29, sp, #272
        sub     x0, x30, #4                     // MCOUNT_INSN_SIZE
        stp     x3, x0, [sp, #304]
        mov     x1, x9
        ldr     x2, function_trace_op

        /* The slot: rewritten to call the one tracer, or the list of them. */
        .globl ftrace_call
ftrace_call:
        bl      ftrace_stub

        /* The second slot: a branch to ftrace_graph_caller, while returns are traced too. */
        .globl ftrace_graph_call
ftrace_graph_call:
        nop

ftrace_restore:
        ldr     x9, [sp, #304]
        cbz     x9, arguments
        ldr     x9, [sp, #264]
        msr     nzcv, x9
        ldp     x10, x11, [sp, #80]
        ldp     x12, x13, [sp, #96]
        ldp     x14, x15, [sp, #112]
        ldp     x16, x17, [sp, #128]
        ldr     x19, [sp, #152]
        ldp     x20, x21, [sp, #160]
        ldp     x22, x23, [sp, #176]
        ldp     x24, x25, [sp, #192]
        ldp     x26, x27, [sp, #208]
        ldr     x28, [sp, #224]
arguments:
        ldp     x0, x1, [sp]
        ldp     x2, x3, [sp, #16]
        ldp     x4, x5, [sp, #32]
        ldp     x6, x7, [sp, #48]
        ldr     x8, [sp, #64]
        ldr     x18, [sp, #144]
        ldr     x29, [sp, #232]
        ldr     x30, [sp, #240]
        ldr     x9, [sp, #280]
        add     sp, sp, #320
        ret     x9

/* Nothing is traced: exchange x30 and x9, and keep all else. */
stopped_regs:
        ldr     x10, [sp], #16
stopped:
        eor     x9, x9, x30
        eor     x30, x9, x30
        eor     x9, x9, x30
        ret     x9

/*
 * void ftrace_stub(unsigned long ip, unsigned long parent_ip,
 *                  struct ftrace_ops *op, struct pt_regs *regs)
 *
 * The tracer that does nothing.
 */
        .globl ftrace_stub
ftrace_stub:
        ret

/*
 * void ftrace_graph_caller(void)
 *
 * In the frame of both callers: the slot branches here, and this branches back to the
 * instruction after the slot. Makes the traced function return through
 * return_to_handler: its x30 is restored from the registers that were saved. Calls
 *
 *     void prepare_ftrace_return(unsigned long *parent, unsigned long self_addr,
 *                                unsigned long frame_pointer)
 */
        .globl ftrace_graph_caller
ftrace_graph_caller:
        add     x0, sp, #240                    // the traced function's return address
        ldr     x1, [sp, #312]
        add     x2, sp, #320                    // sp of its caller, also at return
        bl      prepare_ftrace_return
        b       ftrace_restore

#define GET_FRAME add x0, sp, #64
#include "../graph.S"
