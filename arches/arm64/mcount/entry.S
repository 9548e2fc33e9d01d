/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The code that enabled call sites call, for arm64 with -pg.
 *
 * void ftrace_caller(void)
 *
 * Called like any other function, once the traced one has made its frame record:
 * x29 points to its caller's x29, followed by its return address. It calls,
 * through the slot at ftrace_call,
 *
 *     void tracer(unsigned long ip, unsigned long parent_ip,
 *                 struct ftrace_ops *op, struct pt_regs *regs)
 *
 * On entry   x30: the return address of the site's call; x0: x30 before it
 * Keeps      x19..x29 because the tracer does
 * Clobbers   all that a call may: the traced function keeps its arguments in
 *            callee-saved registers
 *
 * The stack at ftrace_call: one frame record, to which x29 points.
 */
        .globl ftrace_caller
ftrace_caller:
        /* HAVE_FUNCTION_TRACE_MCOUNT_TEST */
        ldr     w1, function_trace_stop
        cbnz    w1, ftrace_stub

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

        /* The second slot: a branch to ftrace_graph_caller, while returns are traced too. */
        .globl ftrace_graph_call
ftrace_graph_call:
        nop

ftrace_restore:
        ldp     x29, x30, [sp], #16

/*
 * void ftrace_stub(unsigned long ip, unsigned long parent_ip,
 *                  struct ftrace_ops *op, struct pt_regs *regs)
 *
 * The tracer that does nothing. It is here because ftrace_caller ends with
 * the same return.
 */
        .globl ftrace_stub
ftrace_stub:
        ret

/*
 * void ftrace_graph_caller(void)
 *
 * In the frame of ftrace_caller: the slot branches here, and this branches back to the
 * instruction after the slot. Makes the traced function return through
 * return_to_handler: its return address is in its frame record. Calls
 *
 *     void prepare_ftrace_return(unsigned long *parent, unsigned long self_addr,
 *                                unsigned long frame_pointer)
 */
        .globl ftrace_graph_caller
ftrace_graph_caller:
        ldp     x0, x1, [x29]                   // its frame record, and the address after the site
        sub     x1, x1, #4                      // MCOUNT_INSN_SIZE
        ldr     x2, [x0], #8                    // x29 of its caller; x0 at the return address
        bl      prepare_ftrace_return
        b       ftrace_restore

#define GET_FRAME mov x0, x29
#include "../graph.S"
