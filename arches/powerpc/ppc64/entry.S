/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The code that enabled call sites call, for 64-bit PowerPC.
 *
 * void ftrace_caller(void)
 *
 * Not a C function: nothing calls it through a pointer, so it has neither a
 * descriptor nor a dot. A site in the kernel calls it directly, one in a module
 * through a stub, which has saved the module's r2 at 40(r1). In both cases r2 is
 * the kernel's TOC pointer here. It calls, through the slot at ftrace_call,
 *
 *     void tracer(unsigned long ip, unsigned long parent_ip,
 *                 struct ftrace_ops *op, struct pt_regs *regs)
 *
 * On entry   the traced function has made its frame and called this like any
 *            other function; its arguments may still be in r3..r10, though the
 *            compiler keeps them elsewhere. lr: return address of the site's call
 * Keeps      r3..r10 and the caller's r2; r13..r31 and cr2..cr4 because the tracer does
 * Clobbers   r0, r11, r12, ctr, xer and the other fields of cr, as a call may
 *
 * A module restores its r2 after the call. But its site may become two nops while
 * this runs, so that the restore is gone when it returns. So r2 is restored here
 * as well, from the place where the stub has saved it.
 *
 * The stack at ftrace_call, lowest address at the bottom. A frame begins with
 * its back chain; the callee saves lr at 16 of its caller's.
 *
 *     back chain of the traced function's frame + 16        parent_ip
 *     r1 + 192   the return address of ftrace_caller        ip + 4
 *     r1 + 176   the traced function's frame
 *     r1 + 168   r10
 *     r1 + 160   r9
 *     r1 + 152   r8
 *     r1 + 144   r7
 *     r1 + 136   r6
 *     r1 + 128   r5
 *     r1 + 120   r4
 *     r1 + 112   r3
 *     r1 +  48   the tracer's parameter save area
 *     r1 +  40   r2, for the tracer's own use
 *     r1 +  24   lr, saved by ftrace_graph_caller
 *     r1 +  16   lr, saved by the tracer
 *     r1         back chain
 */
        .globl ftrace_caller
ftrace_caller:
        mflr    %r12
        bl      here                            // lr: this address
here:
        mflr    %r11

        /* HAVE_FUNCTION_TRACE_MCOUNT_TEST */
        lwz     %r0, function_trace_stop - here(%r11)
        cmpwi   %r0, 0
        bne     stopped

        ld      %r0, function_trace_op - here(%r11)
        ld      %r11, 0(%r1)
        std     %r12, 16(%r1)
        stdu    %r1, -176(%r1)
        std     %r3, 112(%r1)
        std     %r4, 120(%r1)
        std     %r5, 128(%r1)
        std     %r6, 136(%r1)
        std     %r7, 144(%r1)
        std     %r8, 152(%r1)
        std     %r9, 160(%r1)
        std     %r10, 168(%r1)

        addi    %r3, %r12, -4                   // address of the call
        ld      %r4, 16(%r11)
        mr      %r5, %r0
        li      %r6, 0                          // no pt_regs were saved

        /* The slot: rewritten to call the one tracer, or the list of them. */
        .globl ftrace_call
ftrace_call:
        bl      ftrace_stub
        nop

        /* The second slot: a call of ftrace_graph_caller, while returns are traced too. */
        .globl ftrace_graph_call
ftrace_graph_call:
        nop

        ld      %r12, 192(%r1)
        ld      %r3, 112(%r1)
        ld      %r4, 120(%r1)
        ld      %r5, 128(%r1)
        ld      %r6, 136(%r1)
        ld      %r7, 144(%r1)
        ld      %r8, 152(%r1)
        ld      %r9, 160(%r1)
        ld      %r10, 168(%r1)
        addi    %r1, %r1, 176

stopped:
        mtlr    %r12
        srdi    %r11, %r12, 60                  // 0xd...: the call came from a module
        cmpldi  %r11, 13
        bne     ftrace_stub
        ld      %r2, 40(%r1)

/*
 * void ftrace_stub(unsigned long ip, unsigned long parent_ip,
 *                  struct ftrace_ops *op, struct pt_regs *regs)
 *
 * The tracer that does nothing. It is here because ftrace_caller ends with
 * the same return.
 */
        .globl ftrace_stub
ftrace_stub:
        blr

/*
 * void ftrace_graph_caller(void)
 *
 * Called in the frame of ftrace_caller. Makes the traced function return through
 * return_to_handler: its lr is saved in its caller's frame. Calls, by a descriptor,
 *
 *     void prepare_ftrace_return(unsigned long *parent, unsigned long self_addr,
 *                                unsigned long frame_pointer)
 */
        .globl ftrace_graph_caller
ftrace_graph_caller:
        mflr    %r0
        std     %r0, 24(%r1)
        ld      %r4, 192(%r1)
        ld      %r5, 176(%r1)                   // r1 of the caller, also at return
        addi    %r3, %r5, 16                    // the traced function's return address
        addi    %r4, %r4, -4
        bl      here_graph
here_graph:
        mflr    %r12
        ld      %r11, prepare - here_graph(%r12)
        ld      %r12, 0(%r11)
        mtctr   %r12
        bctrl
        ld      %r0, 24(%r1)
        mtlr    %r0
        blr

/*
 * void return_to_handler(void)
 *
 * A function returns to this while it is traced; r2 may be a module's and is
 * changed and restored. Returns for it, with its result in r3 and r4, to
 * the address returned by
 *
 *     unsigned long ftrace_return_to_handler(unsigned long frame_pointer,
 *                                            unsigned long retval)
 */
        .globl return_to_handler
return_to_handler:
        stdu    %r1, -144(%r1)
        std     %r3, 112(%r1)
        std     %r4, 120(%r1)
        std     %r2, 128(%r1)
        mr      %r4, %r3
        addi    %r3, %r1, 144
        bl      here_return
here_return:
        mflr    %r12
        ld      %r11, handler - here_return(%r12)
        ld      %r12, 0(%r11)
        ld      %r2, 8(%r11)
        mtctr   %r12
        bctrl
        mtlr    %r3
        ld      %r3, 112(%r1)
        ld      %r4, 120(%r1)
        ld      %r2, 128(%r1)
        addi    %r1, %r1, 144
        blr

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

/* Descriptors of the functions called above. */
prepare:
        .quad   prepare_ftrace_return
handler:
        .quad   ftrace_return_to_handler
