/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The code that enabled call sites call, for x86-64. Intel syntax: destination first.
 *
 * void ftrace_caller(void)
 * void ftrace_regs_caller(void)
 *
 * Not C functions: each is called before the first instruction of the traced
 * function's body, so everything that the function may expect at its entry must be
 * restored afterwards. With several users, each gets a copy of one of them.
 * trampoline.py lists the instructions relative to rip; no others are allowed.
 * Each calls, through a slot of its own,
 *
 *     void tracer(unsigned long ip, unsigned long parent_ip,
 *                 struct ftrace_ops *op, struct pt_regs *regs)
 *
 * On entry   all arguments of the traced function in rdi, rsi, rdx, rcx, r8,
 *            r9; al, the number of vector registers, for a variadic one; r10,
 *            the static chain; rsp 16-byte aligned
 * Keeps      every register; ftrace_caller rbx, rbp and r12..r15 because the
 *            tracer does
 * Clobbers   ftrace_caller the flags, on which no function may depend
 *
 * The stack of ftrace_caller at ftrace_call, lowest address at the bottom:
 *
 *     rsp + 88   the traced function's return address         parent_ip
 *     rsp + 80   the return address of ftrace_caller          ip + MCOUNT_INSN_SIZE
 *     rsp + 72   unused, keeps rsp aligned
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

        sub     rsp, 80
        mov     [rsp], rax
        mov     [rsp + 8], rcx
        mov     [rsp + 16], rdx
        mov     [rsp + 24], rsi
        mov     [rsp + 32], rdi
        mov     [rsp + 40], r8
        mov     [rsp + 48], r9
        mov     [rsp + 56], r10
        mov     [rsp + 64], r11

        mov     rdi, [rsp + 80]
        sub     rdi, 5                          // MCOUNT_INSN_SIZE
        mov     rsi, [rsp + 88]
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
        lea     rsp, [rsp + 80]

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
 * ftrace_regs_caller: the tracer gets all registers as they are at the traced
 * function's entry, as `regs`; rip, as in the kernel, is the address after the
 * site. The traced function gets the tracer's changes to them, except to rsp.
 *
 * The stack at ftrace_regs_call, lowest address at the bottom:
 *
 *     rsp + 152  the traced function's return address         parent_ip
 *     rsp + 144  the return address of ftrace_regs_caller     ip + MCOUNT_INSN_SIZE
 *     rsp + 136  rsp                                          rsp + 152
 *     rsp + 128  rflags
 *     rsp + 120  rip                                          ip + MCOUNT_INSN_SIZE
 *     rsp +  56  r8..r15
 *     rsp        rax, rbx, rcx, rdx, rsi, rdi, rbp            struct pt_regs
 */
        .globl ftrace_regs_caller
ftrace_regs_caller:
        pushfq
        cmp     dword ptr [rip + function_trace_stop], 0
        jne     stopped

        sub     rsp, 136
        mov     [rsp], rax
        mov     rax, [rsp + 136]
        mov     [rsp + 128], rax
        mov     [rsp + 8], rbx
        mov     [rsp + 16], rcx
        mov     [rsp + 24], rdx
        mov     [rsp + 32], rsi
        mov     [rsp + 40], rdi
        mov     [rsp + 48], rbp
        mov     [rsp + 56], r8
        mov     [rsp + 64], r9
        mov     [rsp + 72], r10
        mov     [rsp + 80], r11
        mov     [rsp + 88], r12
        mov     [rsp + 96], r13
        mov     [rsp + 104], r14
        mov     [rsp + 112], r15
        lea     rax, [rsp + 152]
        mov     [rsp + 136], rax

        mov     rdi, [rsp + 144]
        mov     [rsp + 120], rdi
        sub     rdi, 5                          // MCOUNT_INSN_SIZE
        mov     rsi, [rsp + 152]
        mov     rdx, [rip + function_trace_op]
        mov     rcx, rsp

        /* The slot, rewritten together with ftrace_call. */
        .globl ftrace_regs_call
ftrace_regs_call:
        call    ftrace_stub

        mov     rax, [rsp + 120]
        mov     [rsp + 144], rax
        mov     r15, [rsp + 112]
        mov     r14, [rsp + 104]
        mov     r13, [rsp + 96]
        mov     r12, [rsp + 88]
        mov     r11, [rsp + 80]
        mov     r10, [rsp + 72]
        mov     r9, [rsp + 64]
        mov     r8, [rsp + 56]
        mov     rbp, [rsp + 48]
        mov     rdi, [rsp + 40]
        mov     rsi, [rsp + 32]
        mov     rdx, [rsp + 24]
        mov     rcx, [rsp + 16]
        mov     rbx, [rsp + 8]
        mov     rax, [rsp + 128]
        push    rax
        popfq
        mov     rax, [rsp]

        /* The frame of ftrace_caller, at whose end both callers return. */
        lea     rsp, [rsp + 64]
        mov     [rsp], rax
        mov     [rsp + 8], rcx
        mov     [rsp + 16], rdx
        mov     [rsp + 24], rsi
        mov     [rsp + 32], rdi
        mov     [rsp + 40], r8
        mov     [rsp + 48], r9
        mov     [rsp + 56], r10
        mov     [rsp + 64], r11
        jmp     ftrace_graph_call
stopped:
        popfq
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
 *     rsp + 96   rsp of the caller, also at the return        frame_pointer
 *     rsp + 88   the traced function's return address         *parent
 *     rsp + 80   the return address of ftrace_caller          self_addr + 5
 *     rsp        the registers
 */
#define FRAME 80
#define SELF rsp + 80
#define PARENT rsp + 88
#define CALLER_SP rsp + 96
#include "../graph.S"
