/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The part of entry.S that the 64-bit x86 ports share: ftrace_graph_caller,
 * return_to_handler, and the words. The slot jumps to ftrace_graph_caller, which restores
 * the registers itself: a jump back would cost as much as four instructions. Each entry.S
 * draws its stack and defines
 *
 *     FRAME       bytes of ftrace_caller's stack
 *     SELF        address of the word with the return address of ftrace_caller
 *     PARENT      address of the word with the traced function's return address
 *     CALLER_SP   rsp of the function's caller at the call of the function
 */
        .globl ftrace_graph_caller
ftrace_graph_caller:
        lea     rdi, [PARENT]
        mov     rsi, [SELF]
        sub     rsi, 5                          // MCOUNT_INSN_SIZE
        lea     rdx, [CALLER_SP]
        call    prepare_ftrace_return
        mov     rax, [rsp]
        mov     rcx, [rsp + 8]
        mov     rdx, [rsp + 16]
        mov     rsi, [rsp + 24]
        mov     rdi, [rsp + 32]
        mov     r8, [rsp + 40]
        mov     r9, [rsp + 48]
        mov     r10, [rsp + 56]
        mov     r11, [rsp + 64]
        add     rsp, FRAME
        ret

/*
 * void return_to_handler(void)
 *
 * A function returns to this while it is traced. Returns for it, with its result
 * in rax and rdx, to the address returned by
 *
 *     unsigned long ftrace_return_to_handler(unsigned long frame_pointer,
 *                                            unsigned long retval)
 */
        .balign 64, 0xcc                        // other low bits than ftrace_call's return
        .globl return_to_handler
return_to_handler:
        sub     rsp, 32
        mov     [rsp], rax
        mov     [rsp + 8], rdx
        lea     rdi, [rsp + 32]
        mov     rsi, rax
        call    ftrace_return_to_handler
        mov     [rsp + 24], rax
        mov     rax, [rsp]
        mov     rdx, [rsp + 8]
        add     rsp, 24
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
