/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What an enabled call site calls, for x86-64. Intel syntax: destination first.
 *
 * void ftrace_caller(void)
 *
 * Not a function of C: it is called before the first instruction of the traced
 * function's body, so everything that function may expect at its entry must be
 * there again afterwards. It calls, through the slot at ftrace_call,
 *
 *     void tracer(unsigned long ip, unsigned long parent_ip,
 *                 struct ftrace_ops *op, struct pt_regs *regs)
 *
 * On entry   all arguments of the traced function in rdi, rsi, rdx, rcx, r8,
 *            r9; al, the number of vector registers, for a variadic one; r10,
 *            the static chain; rsp 16-byte aligned
 * Keeps      every register; rbx, rbp and r12..r15 because the tracer does
 * Clobbers   flags, which no function may expect anything of
 *
 * The stack at ftrace_call, lowest address at the bottom:
 *
 *     rsp + 88   where the traced function returns to         parent_ip
 *     rsp + 80   where ftrace_caller returns to               ip + MCOUNT_INSN_SIZE
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

        mov     rax, [rsp]
        mov     rcx, [rsp + 8]
        mov     rdx, [rsp + 16]
        mov     rsi, [rsp + 24]
        mov     rdi, [rsp + 32]
        mov     r8, [rsp + 40]
        mov     r9, [rsp + 48]
        mov     r10, [rsp + 56]
        mov     r11, [rsp + 64]
        add     rsp, 80

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
