/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The code that enabled call sites call, for 32-bit PowerPC.
 *
 * void ftrace_caller(void)
 *
 * Not a C function: GCC calls it by the third instruction of the traced function,
 * which has no frame yet and has stored its own lr at 4(r1). The function reads lr
 * again when it makes its frame, so lr must be restored and this returns by ctr.
 * clang calls it after the prologue: the function has a frame, its lr is in the frame
 * of its caller, and the lr of the moment does not matter. The instruction before the
 * site, `stw r0,4(r1)` of GCC, tells which it is.
 * It calls, through the slot at ftrace_call,
 *
 *     void tracer(unsigned long ip, unsigned long parent_ip,
 *                 struct ftrace_ops *op, struct pt_regs *regs)
 *
 * On entry   all arguments of the traced function in r3..r10; r11, the static
 *            chain; cr1, whether a variadic one got floating-point arguments; lr: the
 *            return address of the site's call; 4(r1): lr as it must be then
 * Keeps      r3..r12 and cr1; r13..r31 and cr2..cr4 because the tracer does
 * Clobbers   r0, ctr, xer and the other fields of cr, on which no function
 *            may depend
 *
 * The stack at ftrace_call, lowest address at the bottom. A frame begins with
 * its back chain; the callee saves lr at 4 of its caller's.
 *
 *     r1 + 68   by GCC, the traced function's return address; by clang, r1 + 52 again
 *     r1 + 64   the frame of the traced function's caller; by clang, of the function
 *     r1 + 60   address of the caller's frame; at 4 of that, parent_ip
 *     r1 + 56   lr, saved by ftrace_graph_caller
 *     r1 + 52   the return address of ftrace_caller         ip + MCOUNT_INSN_SIZE
 *     r1 + 48   cr
 *     r1 + 44   r12
 *     r1 + 40   r11
 *     r1 + 36   r10
 *     r1 + 32   r9
 *     r1 + 28   r8
 *     r1 + 24   r7
 *     r1 + 20   r6
 *     r1 + 16   r5
 *     r1 + 12   r4
 *     r1 +  8   r3
 *     r1 +  4   lr, saved by the tracer
 *     r1        back chain
 */
        .globl ftrace_caller
ftrace_caller:
        stwu    %r1, -64(%r1)
        stw     %r11, 40(%r1)
        mflr    %r11
        stw     %r11, 52(%r1)
        bl      here                            // lr: this address
here:
        mflr    %r11

        /* HAVE_FUNCTION_TRACE_MCOUNT_TEST */
        lwz     %r0, function_trace_stop - here(%r11)
        cmpwi   %r0, 0
        bne     stopped

        lwz     %r0, function_trace_op - here(%r11)
        stw     %r3, 8(%r1)
        stw     %r4, 12(%r1)
        stw     %r5, 16(%r1)
        stw     %r6, 20(%r1)
        stw     %r7, 24(%r1)
        stw     %r8, 28(%r1)
        stw     %r9, 32(%r1)
        stw     %r10, 36(%r1)
        stw     %r12, 44(%r1)
        mfcr    %r11
        stw     %r11, 48(%r1)

        lwz     %r3, 52(%r1)
        addi    %r3, %r3, -4                    // MCOUNT_INSN_SIZE
        lwz     %r11, -4(%r3)                   // the instruction before the site
        xoris   %r11, %r11, 0x9001              // stw r0,4(r1)
        cmplwi  %r11, 4
        addi    %r12, %r1, 64
        beq     frameless
        lwz     %r12, 64(%r1)
        lwz     %r11, 52(%r1)
        stw     %r11, 68(%r1)                   // where a callee of this frame saves lr
frameless:
        stw     %r12, 60(%r1)
        lwz     %r4, 4(%r12)
        mr      %r5, %r0
        li      %r6, 0                          // no pt_regs were saved

        /* The slot: rewritten to call the one tracer, or the list of them. */
        .globl ftrace_call
ftrace_call:
        bl      ftrace_stub

        /* The second slot: a call of ftrace_graph_caller, while returns are traced too. */
        .globl ftrace_graph_call
ftrace_graph_call:
        nop

        lwz     %r12, 48(%r1)
        mtcrf   0x40, %r12
        lwz     %r3, 8(%r1)
        lwz     %r4, 12(%r1)
        lwz     %r5, 16(%r1)
        lwz     %r6, 20(%r1)
        lwz     %r7, 24(%r1)
        lwz     %r8, 28(%r1)
        lwz     %r9, 32(%r1)
        lwz     %r10, 36(%r1)
        lwz     %r12, 44(%r1)
stopped:
        lwz     %r11, 52(%r1)
        lwz     %r0, 68(%r1)
        mtctr   %r11
        mtlr    %r0
        lwz     %r11, 40(%r1)
        addi    %r1, %r1, 64
        bctr

/*
 * void ftrace_graph_caller(void)
 *
 * Called in the frame of ftrace_caller. Makes the traced function return through
 * return_to_handler: its lr is where the function has stored it. Calls
 *
 *     void prepare_ftrace_return(unsigned long *parent, unsigned long self_addr,
 *                                unsigned long frame_pointer)
 */
        .globl ftrace_graph_caller
ftrace_graph_caller:
        mflr    %r0
        stw     %r0, 56(%r1)
        lwz     %r4, 52(%r1)
        lwz     %r5, 60(%r1)                    // r1 of its caller, also at return
        addi    %r3, %r5, 4                     // the traced function's return address
        addi    %r4, %r4, -4
        bl      prepare_ftrace_return
        lwz     %r0, 56(%r1)
        mtlr    %r0
        blr

/*
 * void return_to_handler(void)
 *
 * A function returns to this while it is traced. Returns for it, with its result
 * in r3 and r4, to the address returned by
 *
 *     unsigned long ftrace_return_to_handler(unsigned long frame_pointer,
 *                                            unsigned long retval)
 */
        .globl return_to_handler
return_to_handler:
        stwu    %r1, -16(%r1)
        stw     %r3, 8(%r1)
        stw     %r4, 12(%r1)
        mr      %r4, %r3
        addi    %r3, %r1, 16
        bl      ftrace_return_to_handler
        mtlr    %r3
        lwz     %r3, 8(%r1)
        lwz     %r4, 12(%r1)
        addi    %r1, %r1, 16
        blr

/*
 * void ftrace_stub(unsigned long ip, unsigned long parent_ip,
 *                  struct ftrace_ops *op, struct pt_regs *regs)
 *
 * The tracer that does nothing.
 */
        .globl ftrace_stub
ftrace_stub:
        blr

/* unsigned int function_trace_stop: while it is not 0, nothing is traced. */
        .balign 4
        .globl function_trace_stop
function_trace_stop:
        .long   0

/* struct ftrace_ops *function_trace_op: the tracer's argument `op`. */
        .balign 4
        .globl function_trace_op
function_trace_op:
        .long   0
