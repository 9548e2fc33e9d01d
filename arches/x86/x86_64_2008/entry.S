/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The code that enabled call sites call, for x86-64 as in 2008. Intel syntax:
 * destination first.
 *
 * void ftrace_caller(void)
 *
 * Not a C function: it is called after the prologue of the traced function, which
 * has made a frame, and the code after the site may depend on any register. It
 * calls, through the slot at ftrace_call,
 *
 *     void tracer(unsigned long ip, unsigned long parent_ip,
 *                 struct ftrace_ops *op, struct pt_regs *regs)
 *
 * On entry   rbp at the frame of the traced function: [rbp] is its caller's rbp,
 *            [rbp + 8] its return address. The prologue may have pushed more, so
 *            the word above the return address of this call may be another, and
 *            rsp need not be aligned
 * Keeps      every register; rbx, rbp and r12..r15 because the tracer does
 * Clobbers   flags, on which no function may depend
 *
 * The stack at ftrace_call, lowest address at the bottom:
 *
 *     rsp + 72   the return address of ftrace_caller          ip + MCOUNT_INSN_SIZE
 *     rsp + 64   r11
 *     rsp + 56   r10
 *     rsp + 48   r9
 *     rsp + 40   r8
 *     rsp + 32   rdi
 *     rsp + 24   rsi
 *     rsp + 16   rdx
 *     rsp +  8   rcx
 *     rsp        rax
 */
        .globl ftrace_caller
ftrace_caller:
        /* HAVE_FUNCTION_TRACE_MCOUNT_TEST */
        cmp     dword ptr [rip + function_trace_stop], 0
        jne     ftrace_stub

        sub     rsp, 72
        mov     [rsp], rax
        mov     [rsp + 8], rcx
        mov     [rsp + 16], rdx
        mov     [rsp + 24], rsi
        mov     [rsp + 32], rdi
        mov     [rsp + 40], r8
        mov     [rsp + 48], r9
        mov     [rsp + 56], r10
        mov     [rsp + 64], r11

        mov     rdi, [rsp + 72]
        sub     rdi, 5                          // MCOUNT_INSN_SIZE
        mov     rsi, [rbp + 8]
        mov     rdx, [rip + function_trace_op]
        xor     ecx, ecx                        // no pt_regs were saved

        /* The slot: rewritten to call the one tracer, or the list of them. */
        .globl ftrace_call
ftrace_call:
        call    ftrace_stub

        /*
         * The second slot: a jump to ftrace_graph_caller, while returns are traced too. It
         * is before the registers are restored, so that they are saved once for both.
         */
        .globl ftrace_graph_call
ftrace_graph_call:
        .byte   0x0f, 0x1f, 0x44, 0x00, 0x00    // nop of 5 bytes
        mov     rax, [rsp]
        mov     rcx, [rsp + 8]
        mov     rdx, [rsp + 16]
        mov     rsi, [rsp + 24]
        mov     rdi, [rsp + 32]
        mov     r8, [rsp + 40]
        mov     r9, [rsp + 48]
        mov     r10, [rsp + 56]
        mov     r11, [rsp + 64]
        add     rsp, 72

/*
 * void ftrace_stub(unsigned long ip, unsigned long parent_ip,
 *                  struct ftrace_ops *op, struct pt_regs *regs)
 *
 * The tracer that does nothing. It is here because ftrace_caller ends with
 * the same return; mcount has one like it in the kernel.
 */
        .globl ftrace_stub
ftrace_stub:
        ret

/*
 * void ftrace_graph_caller(void)
 *
 * The slot jumps here with the registers saved. Makes the traced function return through
 * return_to_handler. Calls
 *
 *     void prepare_ftrace_return(unsigned long *parent, unsigned long self_addr,
 *                                unsigned long frame_pointer)
 *
 * The stack, lowest address at the bottom:
 *
 *     rbp + 16   rsp of the caller, also at the return        frame_pointer
 *     rbp +  8   the traced function's return address         *parent
 *     rsp + 72   the return address of ftrace_caller          self_addr + 5
 *     rsp        the registers; rsp is aligned if the site aligns it
 */
#define FRAME 72
#define SELF rsp + 72
#define PARENT rbp + 8
#define CALLER_SP rbp + 16
#include "../graph.S"
