/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What an enabled call site calls, for arm64 with -pg.
 *
 * void ftrace_caller(void)
 *
 * Called as any other function, once the traced one has made its frame record:
 * at x29 lies its caller's x29, and behind that the way back to its caller. It
 * calls, through the slot at ftrace_call,
 *
 *     void tracer(unsigned long ip, unsigned long parent_ip,
 *                 struct ftrace_ops *op, struct pt_regs *regs)
 *
 * On entry   x30: where the site's call returns to; x0: what x30 was before
 * Keeps      x19..x29 because the tracer does
 * Clobbers   all that a call may: the traced function keeps its arguments in
 *            registers that a callee saves
 *
 * The stack at ftrace_call: one frame record, and x29 leads to it.
 */
        .globl ftrace_caller
ftrace_caller:
        ldr     x1, [x29, #8]                   // parent_ip
        stp     x29, x30, [sp, #-16]!
        mov     x29, sp
        sub     x0, x30, #4                     // MCOUNT_INSN_SIZE
        ldr     x2, function_trace_op
        mov     x3, xzr                         // no pt_regs were saved

        /* The slot: rewritten to call the one tracer, or the list of them. */
        .globl ftrace_call
ftrace_call:
        bl      ftrace_stub

        ldp     x29, x30, [sp], #16

/*
 * void ftrace_stub(unsigned long ip, unsigned long parent_ip,
 *                  struct ftrace_ops *op, struct pt_regs *regs)
 *
 * The tracer that does nothing. Stands here because ftrace_caller ends with
 * the same return.
 */
        .globl ftrace_stub
ftrace_stub:
        ret

/* struct ftrace_ops *function_trace_op: what the tracer gets as `op`. */
        .balign 8
        .globl function_trace_op
function_trace_op:
        .quad   0
