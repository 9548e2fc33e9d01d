/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The code that enabled call sites call, for i386. Intel syntax: destination first.
 *
 * void ftrace_caller(void)
 *
 * Not a C function: it is called before the first instruction of the traced
 * function's body, so everything that the function may expect at its entry must be
 * restored afterwards. It calls, through the slot at ftrace_call,
 *
 *     void tracer(unsigned long ip, unsigned long parent_ip,
 *                 struct ftrace_ops *op, struct pt_regs *regs)
 *
 * with the first three arguments in eax, edx, ecx, and the fourth on the stack.
 *
 * On entry   arguments of the traced function in eax, edx, ecx, further ones on
 *            the stack
 * Keeps      every register; ebx, esi, edi and ebp because the tracer does
 * Clobbers   flags, on which no function may depend
 *
 * The stack at ftrace_call, lowest address at the bottom:
 *
 *     esp + 20   the traced function's return address         parent_ip
 *     esp + 16   the return address of ftrace_caller          ip + MCOUNT_INSN_SIZE
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

        /* The second slot: a jump to ftrace_graph_caller, while returns are traced too. */
        .globl ftrace_graph_call
ftrace_graph_call:
        .byte   0x3e, 0x8d, 0x74, 0x26, 0x00    // nop of 5 bytes

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
 * void ftrace_regs_caller(void)
 *
 * The same, but the tracer gets all registers as they are at the traced function's
 * entry, as `regs`; eip, as in the kernel, is the address after the site. The
 * traced function gets the tracer's changes to them, except to esp.
 *
 * Keeps      every register, the flags too
 *
 * The stack at ftrace_regs_call, lowest address at the bottom:
 *
 *     esp + 48   the traced function's return address         parent_ip
 *     esp + 44   the return address of ftrace_regs_caller     ip + MCOUNT_INSN_SIZE
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
        pop     dword ptr [esp + 8]             // eip; relative to esp after the pop
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
 * The slot jumps here with every register as it was at the traced function's entry.
 * Makes that function return through return_to_handler, and returns for
 * ftrace_caller. Calls
 *
 *     void prepare_ftrace_return(unsigned long *parent, unsigned long self_addr,
 *                                unsigned long frame_pointer)
 *
 * The stack at that call, lowest address at the bottom:
 *
 *     esp + 20   esp of the caller, also at the return        frame_pointer
 *     esp + 16   the traced function's return address         *parent
 *     esp + 12   the return address of ftrace_caller          self_addr + 5
 *     esp +  8   eax
 *     esp +  4   ecx
 *     esp        edx
 */
        .globl ftrace_graph_caller
ftrace_graph_caller:
        push    eax
        push    ecx
        push    edx
        lea     eax, [esp + 16]
        mov     edx, [esp + 12]
        sub     edx, 5                          // MCOUNT_INSN_SIZE
        lea     ecx, [esp + 20]
        call    prepare_ftrace_return
        pop     edx
        pop     ecx
        pop     eax
        .byte   0xf3, 0xc3                      // rep ret: AMD's advice for a ret after a jump

/*
 * void return_to_handler(void)
 *
 * A function returns to this while it is traced. Returns for it, with its result
 * in eax and edx, to the address returned by
 *
 *     unsigned long ftrace_return_to_handler(unsigned long frame_pointer,
 *                                            unsigned long retval)
 */
        .globl return_to_handler
return_to_handler:
        push    eax                             // room for the return address
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

/* struct ftrace_ops *function_trace_op: the tracer's argument `op`. */
        .balign 4
        .globl function_trace_op
function_trace_op:
        .long   0
