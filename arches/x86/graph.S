/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The part of entry.S that the 64-bit x86 ports share: ftrace_graph_caller,
 * return_to_handler, and the words. The slot jumps to ftrace_graph_caller, which goes on
 * after it, at `restore`. Each entry.S draws its stack and defines
 *
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
        jmp     restore

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
