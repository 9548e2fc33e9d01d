/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The part of entry.S that the arm64 ports share: return_to_handler, and the words. Each
 * entry.S defines
 *
 *     GET_FRAME   the instruction that puts into x0 what its ftrace_graph_caller has passed
 *                 as frame_pointer; x0..x7 are on the stack, 64 bytes
 */

/*
 * void return_to_handler(void)
 *
 * A function returns to this while it is traced. Returns for it, with its result
 * in x0..x7, to the address returned by
 *
 *     unsigned long ftrace_return_to_handler(unsigned long frame_pointer,
 *                                            unsigned long retval)
 */
        .globl return_to_handler
return_to_handler:
        stp     x0, x1, [sp, #-64]!
        stp     x2, x3, [sp, #16]
        stp     x4, x5, [sp, #32]
        stp     x6, x7, [sp, #48]
        mov     x1, x0
        GET_FRAME
        bl      ftrace_return_to_handler
        mov     x30, x0
        ldp     x2, x3, [sp, #16]
        ldp     x4, x5, [sp, #32]
        ldp     x6, x7, [sp, #48]
        ldp     x0, x1, [sp], #64
        ret

/* unsigned int function_trace_stop: while it is not 0, nothing is traced. */
        .balign 4
        .globl function_trace_stop
function_trace_stop:
        .long   0

/* struct ftrace_ops *function_trace_op: the tracer's argument `op`. */
        .balign 8
        .globl function_trace_op
function_trace_op:
        .quad   0
