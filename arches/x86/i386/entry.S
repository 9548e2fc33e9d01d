/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What an enabled call site calls, for i386. Intel syntax: destination first.
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
 * with the first three arguments in eax, edx, ecx, and the fourth on the stack.
 *
 * On entry   arguments of the traced function in eax, edx, ecx, further ones on
 *            the stack
 * Keeps      every register; ebx, esi, edi and ebp because the tracer does
 * Clobbers   flags, which no function may expect anything of
 *
 * The stack at ftrace_call, lowest address at the bottom:
 *
 *     esp + 20   where the traced function returns to         parent_ip
 *     esp + 16   where ftrace_caller returns to               ip + MCOUNT_INSN_SIZE
 *     esp + 12   eax
 *     esp +  8   ecx
 *     esp +  4   edx
 *     esp        0: no pt_regs were saved                     regs
 */
        .globl ftrace_caller
ftrace_caller:
        /* HAVE_FUNCTION_TRACE_MCOUNT_TEST */
        cmp     dword ptr [function_trace_stop], 0
        jne     ftrace_stub

        push    eax
        push    ecx
        push    edx
        push    0

        mov     eax, [esp + 16]
        sub     eax, 5                          // MCOUNT_INSN_SIZE
        mov     edx, [esp + 20]
        mov     ecx, dword ptr [function_trace_op]

        /* The slot: rewritten to call the one tracer, or the list of them. */
        .globl ftrace_call
ftrace_call:
        call    ftrace_stub

        add     esp, 4
        pop     edx
        pop     ecx
        pop     eax

        /* The second slot: a call of ftrace_graph_caller, while returns are traced too. */
        .globl ftrace_graph_call
ftrace_graph_call:
        .byte   0x3e, 0x8d, 0x74, 0x26, 0x00    // nop of 5 bytes

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

/*
 * void ftrace_regs_caller(void)
 *
 * The same, but the tracer gets all registers, as `regs`, and what it changes of
 * them the traced function has, all but esp. They are those of the traced
 * function's entry; eip, as in the kernel, is where it goes on.
 *
 * Keeps      every register, the flags too
 *
 * The stack at ftrace_regs_call, lowest address at the bottom:
 *
 *     esp + 48   where the traced function returns to         parent_ip
 *     esp + 44   where ftrace_regs_caller returns to          ip + MCOUNT_INSN_SIZE
 *     esp + 40   esp of the traced function: esp + 48         struct pt_regs, its end
 *     esp + 36   eflags
 *     esp + 32   eip                                          ip + MCOUNT_INSN_SIZE
 *     esp + 28   ebp
 *     esp + 24   edi
 *     esp + 20   esi
 *     esp + 16   edx
 *     esp + 12   ecx
 *     esp +  8   ebx
 *     esp +  4   eax                                          struct pt_regs
 *     esp        its address                                  regs
 */
        .globl ftrace_regs_caller
ftrace_regs_caller:
        push    esp                             // what it was before the push, 4 too low
        pushfd
        cmp     dword ptr [function_trace_stop], 0
        jne     stopped
        push    dword ptr [esp + 8]             // eip
        push    ebp
        push    edi
        push    esi
        push    edx
        push    ecx
        push    ebx
        push    eax
        push    esp                             // the same, at the pt_regs: regs
        add     dword ptr [esp + 40], 4         // esp

        mov     eax, [esp + 44]
        sub     eax, 5                          // MCOUNT_INSN_SIZE
        mov     edx, [esp + 48]
        mov     ecx, dword ptr [function_trace_op]

        /* The slot, rewritten together with ftrace_call. */
        .globl ftrace_regs_call
ftrace_regs_call:
        call    ftrace_stub

        pop     eax                             // regs
        pop     eax
        pop     ebx
        pop     ecx
        pop     edx
        pop     esi
        pop     edi
        pop     ebp
        pop     dword ptr [esp + 8]             // eip; counted from behind it, as all pops
        popfd
        lea     esp, [esp + 4]                  // esp
        jmp     ftrace_graph_call
stopped:
        popfd
        lea     esp, [esp + 4]
        ret

/*
 * void ftrace_graph_caller(void)
 *
 * Called with every register as the traced function had it at its entry, to have
 * it return through return_to_handler. Calls
 *
 *     void prepare_ftrace_return(unsigned long *parent, unsigned long self_addr,
 *                                unsigned long frame_pointer)
 *
 * The stack at that call, lowest address at the bottom:
 *
 *     esp + 24   esp of the function's caller, then as now    frame_pointer
 *     esp + 20   where the traced function returns to         *parent
 *     esp + 16   where ftrace_caller returns to               self_addr + 5
 *     esp + 12   where this returns to
 *     esp +  8   eax
 *     esp +  4   ecx
 *     esp        edx
 */
        .globl ftrace_graph_caller
ftrace_graph_caller:
        push    eax
        push    ecx
        push    edx
        lea     eax, [esp + 20]
        mov     edx, [esp + 16]
        sub     edx, 5                          // MCOUNT_INSN_SIZE
        lea     ecx, [esp + 24]
        call    prepare_ftrace_return
        pop     edx
        pop     ecx
        pop     eax
        ret

/*
 * void return_to_handler(void)
 *
 * Where a function returns to while it is traced. Returns for it, with its result
 * in eax and edx, to what this says:
 *
 *     unsigned long ftrace_return_to_handler(unsigned long frame_pointer,
 *                                            unsigned long retval)
 */
        .globl return_to_handler
return_to_handler:
        push    eax                             // room for where to go on
        push    eax
        push    edx
        mov     edx, eax
        lea     eax, [esp + 12]
        call    ftrace_return_to_handler
        mov     [esp + 8], eax
        pop     edx
        pop     eax
        ret

/* unsigned int function_trace_stop: while it is not 0, nothing is traced. */
        .balign 4
        .globl function_trace_stop
function_trace_stop:
        .long   0

/* struct ftrace_ops *function_trace_op: what the tracer gets as `op`. */
        .balign 4
        .globl function_trace_op
function_trace_op:
        .long   0
