"""Mistakes in entry.S: an instruction left out, a wrong register, a wrong offset."""

from __future__ import annotations

from .mutant import Mutant, entry

_KEPT, _GRAPH, _ARGUMENTS = "registers kept", "graph kept", "arguments"
_HANDLER, _FOUND, _STOP = "return_to_handler", "graph arguments", "trace stop"

_X86 = (
    entry(
        "r9 not saved",
        "x86_64",
        _KEPT,
        "        mov     [rsp + 48], r9\n        mov     [rsp + 56], r10\n        mov     [rsp + 64], r11\n\n        mov     rdi, [rsp + 80]",
        "        mov     [rsp + 56], r10\n        mov     [rsp + 64], r11\n\n        mov     rdi, [rsp + 80]",
    ),
    entry(
        "rsi restored from the slot of rdi",
        "x86_64",
        _KEPT,
        "        mov     rsi, [rsp + 24]\n        mov     rdi, [rsp + 32]\n        mov     r8, [rsp + 40]\n        mov     r9, [rsp + 48]\n        mov     r10, [rsp + 56]\n        mov     r11, [rsp + 64]\n        lea",
        "        mov     rsi, [rsp + 32]\n        mov     rdi, [rsp + 32]\n        mov     r8, [rsp + 40]\n        mov     r9, [rsp + 48]\n        mov     r10, [rsp + 56]\n        mov     r11, [rsp + 64]\n        lea",
    ),
    entry(
        "ip after the call",
        "x86_64",
        _ARGUMENTS,
        "        mov     rdi, [rsp + 80]\n        sub     rdi, 5                          // MCOUNT_INSN_SIZE\n",
        "        mov     rdi, [rsp + 80]\n",
    ),
    entry(
        "parent_ip from the wrong word",
        "x86_64",
        _ARGUMENTS,
        "        mov     rsi, [rsp + 88]\n",
        "        mov     rsi, [rsp + 80]\n",
    ),
    entry(
        "no op",
        "x86_64",
        _ARGUMENTS,
        "        mov     rdx, [rip + function_trace_op]\n        xor     ecx",
        "        xor     ecx",
    ),
    entry("regs not cleared", "x86_64", _ARGUMENTS, "        xor     ecx, ecx "),
    entry(
        "frame of 72 bytes: rsp not aligned",
        "x86_64",
        _ARGUMENTS,
        "        sub     rsp, 80\n        mov     [rsp], rax\n        mov     [rsp + 8], rcx\n        mov     [rsp + 16], rdx\n        mov     [rsp + 24], rsi\n        mov     [rsp + 32], rdi\n        mov     [rsp + 40], r8\n        mov     [rsp + 48], r9\n        mov     [rsp + 56], r10\n        mov     [rsp + 64], r11\n\n        mov     rdi, [rsp + 80]\n        sub     rdi, 5                          // MCOUNT_INSN_SIZE\n        mov     rsi, [rsp + 88]\n        mov     rdx, [rip + function_trace_op]\n        xor     ecx, ecx                        // no pt_regs were saved\n",
        "        sub     rsp, 72\n        mov     [rsp], rax\n        mov     [rsp + 8], rcx\n        mov     [rsp + 16], rdx\n        mov     [rsp + 24], rsi\n        mov     [rsp + 32], rdi\n        mov     [rsp + 40], r8\n        mov     [rsp + 48], r9\n        mov     [rsp + 56], r10\n        mov     [rsp + 64], r11\n\n        mov     rdi, [rsp + 72]\n        sub     rdi, 5\n        mov     rsi, [rsp + 80]\n        mov     rdx, [rip + function_trace_op]\n        xor     ecx, ecx\n",
    ),
    entry(
        "registers saved below rsp",
        "x86_64",
        _KEPT,
        "        mov     [rsp + 64], r11\n\n        mov     rdi, [rsp + 80]\n",
        "        mov     [rsp - 8], r11\n        mov     r11, [rsp - 8]\n        mov     [rsp + 64], r11\n\n        mov     rdi, [rsp + 80]\n",
    ),
    entry(
        "xmm0 used as scratch",
        "x86_64",
        _KEPT,
        "        xor     ecx, ecx ",
        "        pxor    xmm0, xmm0\n        xor     ecx, ecx ",
    ),
    entry(
        "stack argument overwritten",
        "x86_64",
        _KEPT,
        "        xor     ecx, ecx ",
        "        mov     [rsp + 96], rdi\n        xor     ecx, ecx ",
    ),
    entry(
        "rbx used without saving it",
        "x86_64",
        _KEPT,
        "        xor     ecx, ecx ",
        "        mov     rbx, rdi\n        xor     ecx, ecx ",
    ),
    entry(
        "the direction flag left set",
        "x86_64",
        _KEPT,
        "        lea     rsp, [rsp + 80]\n",
        "        lea     rsp, [rsp + 80]\n        std\n",
    ),
    entry(
        "pt_regs: rip is the site's",
        "x86_64",
        _ARGUMENTS,
        "        mov     [rsp + 120], rdi\n        sub     rdi, 5 ",
        "        sub     rdi, 5\n        mov     [rsp + 120], rdi\n        nop ",
    ),
    *(
        entry(
            f"graph: the result in {register} lost",
            "x86_64",
            _HANDLER,
            "        mov     rsi, rax\n",
            f"        mov     rsi, rax\n        pxor    {register}, {register}\n",
        )
        for register in ("xmm0", "xmm1")
    ),
    entry(
        "trace stop tested the wrong way",
        "x86_64",
        _STOP,
        "        jne     ftrace_stub\n\n        sub     rsp, 80",
        "        je      ftrace_stub\n\n        sub     rsp, 80",
    ),
    entry(
        "trace stop leaves the flags on the stack",
        "x86_64",
        _STOP,
        "stopped:\n        popfq\n",
        "stopped:\n",
    ),
    entry(
        "pt_regs: r12 and r13 exchanged",
        "x86_64",
        "pt_regs",
        "        mov     [rsp + 88], r12\n        mov     [rsp + 96], r13\n",
        "        mov     [rsp + 88], r13\n        mov     [rsp + 96], r12\n",
    ),
    entry(
        "pt_regs: rsp as it is in ftrace_regs_caller",
        "x86_64",
        "pt_regs",
        "        lea     rax, [rsp + 152]\n",
        "        lea     rax, [rsp + 144]\n",
    ),
    entry(
        "pt_regs: r14 not restored",
        "x86_64",
        "changed pt_regs",
        "        mov     r14, [rsp + 104]\n",
    ),
    entry(
        "graph: the word of r10 overwritten",
        "x86_64",
        _GRAPH,
        "        lea     rdx, [rsp + 96]\n",
        "        lea     rdx, [rsp + 96]\n        mov     [rsp + 56], rdx\n",
    ),
    entry(
        "graph: rax not restored",
        "x86_64",
        _GRAPH,
        "        call    prepare_ftrace_return\n        mov     rax, [rsp]\n",
        "        call    prepare_ftrace_return\n",
    ),
    entry(
        "graph: parent is the word below",
        "x86_64",
        _FOUND,
        "        lea     rdi, [rsp + 88]\n",
        "        lea     rdi, [rsp + 80]\n",
    ),
    entry(
        "graph: self_addr after the call",
        "x86_64",
        _FOUND,
        "        mov     rsi, [rsp + 80]\n        sub     rsi, 5                          // MCOUNT_INSN_SIZE\n",
        "        mov     rsi, [rsp + 80]\n",
    ),
    entry(
        "graph: a constant as frame pointer",
        "x86_64",
        "graph in a module",
        "        lea     rdx, [rsp + 96]\n",
        "        mov     edx, 1\n",
    ),
    entry(
        "graph: rdx of the result lost",
        "x86_64",
        _HANDLER,
        "        mov     rdx, [rsp + 8]\n        add     rsp, 24\n",
        "        add     rsp, 24\n",
    ),
    entry(
        "graph: rsp not aligned in return_to_handler",
        "x86_64",
        _HANDLER,
        "        sub     rsp, 32\n        mov     [rsp], rax\n        mov     [rsp + 8], rdx\n        lea     rdi, [rsp + 32]\n        mov     rsi, rax\n        call    ftrace_return_to_handler\n        mov     [rsp + 24], rax\n        mov     rax, [rsp]\n        mov     rdx, [rsp + 8]\n        add     rsp, 24\n",
        "        sub     rsp, 24\n        mov     [rsp], rax\n        mov     [rsp + 8], rdx\n        lea     rdi, [rsp + 24]\n        mov     rsi, rax\n        call    ftrace_return_to_handler\n        mov     [rsp + 16], rax\n        mov     rax, [rsp]\n        mov     rdx, [rsp + 8]\n        add     rsp, 16\n",
    ),
    entry(
        "graph: retval is rdx",
        "x86_64",
        _HANDLER,
        "        mov     rsi, rax\n",
        "        mov     rsi, rdx\n",
    ),
    entry(
        "regs passed on the stack is not taken off",
        "i386",
        _KEPT,
        "        add     esp, 4\n        pop     edx",
        "        pop     edx",
    ),
    entry(
        "ecx restored into edx",
        "i386",
        _KEPT,
        "        add     esp, 4\n        pop     edx\n        pop     ecx\n",
        "        add     esp, 4\n        pop     ecx\n        pop     edx\n",
    ),
    entry(
        "graph: edx of the result lost",
        "i386",
        _HANDLER,
        "        pop     edx\n        pop     eax\n        ret\n\n/* unsigned",
        "        pop     ecx\n        pop     eax\n        ret\n\n/* unsigned",
    ),
    entry(
        "pt_regs: esp 4 too low",
        "i386",
        "pt_regs",
        "        add     dword ptr [esp + 40], 4         // esp\n",
    ),
)

_POWER = (
    entry("r10 not saved", "ppc64", _KEPT, "        std     %r10, 168(%r1)\n"),
    entry(
        "r5 restored from the slot of r6",
        "ppc64",
        _KEPT,
        "        ld      %r5, 128(%r1)\n",
        "        ld      %r5, 136(%r1)\n",
    ),
    entry(
        "arguments saved where the tracer may store its own",
        "ppc64",
        _KEPT,
        "        std     %r3, 112(%r1)\n        std     %r4, 120(%r1)\n        std     %r5, 128(%r1)\n",
        "        std     %r3, 48(%r1)\n        std     %r4, 120(%r1)\n        std     %r5, 128(%r1)\n",
    ),
    entry(
        "ip after the call",
        "ppc64",
        _ARGUMENTS,
        "        addi    %r3, %r12, -4                   // address of the call\n",
        "        mr      %r3, %r12\n",
    ),
    entry(
        "parent_ip from the traced function's frame",
        "ppc64",
        _ARGUMENTS,
        "        ld      %r4, 16(%r11)\n",
        "        ld      %r4, 16(%r1)\n",
    ),
    entry(
        "frame of 168 bytes: r1 not aligned",
        "ppc64",
        _ARGUMENTS,
        "        stdu    %r1, -176(%r1)\n",
        "        stdu    %r1, -184(%r1)\n",
    ),
    entry(
        "r13 used as scratch",
        "ppc64",
        _KEPT,
        "        mr      %r5, %r0\n",
        "        mr      %r13, %r0\n        mr      %r5, %r13\n",
    ),
    entry(
        "cr2 used as scratch",
        "ppc64",
        _KEPT,
        "        cmpldi  %r11, 13\n",
        "        cmpldi  %cr2, %r11, 13\n        cmpldi  %r11, 13\n",
    ),
    entry(
        "r2 restored after calls of the kernel too",
        "ppc64",
        _KEPT,
        "        cmpldi  %r11, 13\n        bne     ftrace_stub\n",
    ),
    entry(
        "graph: the result in f1 lost",
        "ppc64",
        _HANDLER,
        "        addi    %r3, %r1, 144\n",
        "        addi    %r3, %r1, 144\n        fsub    %f1, %f1, %f1\n",
    ),
    entry(
        "trace stop loses lr",
        "ppc64",
        _STOP,
        "        bne     stopped\n",
        "        bne     ftrace_stub\n",
    ),
    entry(
        "graph: lr not restored",
        "ppc64",
        _FOUND,
        "        ld      %r0, 24(%r1)\n        mtlr    %r0\n        blr\n",
        "        blr\n",
    ),
    entry(
        "graph: parent in the frame of ftrace_caller",
        "ppc64",
        _FOUND,
        "        addi    %r3, %r5, 16 ",
        "        addi    %r3, %r1, 16 ",
    ),
    entry(
        "graph: r4 of the result lost",
        "ppc64",
        _HANDLER,
        "        std     %r4, 120(%r1)\n        std     %r2, 128(%r1)\n",
        "        std     %r2, 128(%r1)\n",
    ),
    entry(
        "graph: the tracer's TOC pointer not loaded",
        "ppc64",
        _HANDLER,
        "        ld      %r2, 8(%r11)\n",
    ),
    entry(
        "graph: the module's TOC pointer not restored",
        "ppc64",
        _HANDLER,
        "        ld      %r2, 128(%r1)\n        addi    %r1, %r1, 144\n",
        "        addi    %r1, %r1, 144\n",
    ),
    entry(
        "graph: frame pointer 8 too low on return",
        "ppc64",
        "frame pointer",
        "        addi    %r3, %r1, 144\n",
        "        addi    %r3, %r1, 136\n",
    ),
)

_POWER32 = (
    entry("cr1 not restored", "ppc32", _KEPT, "        mtcrf   0x40, %r12\n"),
    entry(
        "cr0 restored instead of cr1",
        "ppc32",
        _KEPT,
        "        mtcrf   0x40, %r12\n",
        "        mtcrf   0x80, %r12\n",
    ),
    entry(
        "r12 not restored",
        "ppc32",
        _KEPT,
        "        lwz     %r10, 36(%r1)\n        lwz     %r12, 44(%r1)\nstopped",
        "        lwz     %r10, 36(%r1)\nstopped",
    ),
)

_MIPS = (
    entry("a3 not restored", "mips", _KEPT, "        lw   $a3, 32($sp)\n"),
    entry(
        "v0, the static chain, not restored",
        "mips",
        _KEPT,
        "        lw   $v0, 16($sp)\n        lw   $v1, 36($sp)\n        lw   $a0",
        "        lw   $v1, 36($sp)\n        lw   $a0",
    ),
    entry(
        "arguments saved where the tracer may store its own",
        "mips",
        _KEPT,
        "        sw   $a0, 20($sp)\n",
        "        sw   $a0, 0($sp)\n        lw   $t0, 0($sp)\n        nop\n",
    ),
    entry(
        "the site's 8 bytes not given back",
        "mips",
        _KEPT,
        "        addiu $sp, $sp, 56\nstopped",
        "        addiu $sp, $sp, 48\nstopped",
    ),
    entry(
        "delay slot exchanged with the return",
        "mips",
        _KEPT,
        "        jr      $t0\n        addiu $sp, $sp, 56\n",
        "        addiu   $sp, $sp, 56\n        jr      $t0\n        lw      $a0, 20($sp)\n",
    ),
    entry(
        "ip 4 before the return address",
        "mips",
        _ARGUMENTS,
        "        addiu $a0, $ra, -8\n",
        "        addiu $a0, $ra, -4\n",
    ),
    entry(
        "ip of a far site is its jalr",
        "mips",
        "graph in a module",
        "        addiu $a0, $a0, -12\n",
        "        addiu $a0, $a0, 0\n",
    ),
    entry(
        "parent_ip is ra",
        "mips",
        _ARGUMENTS,
        "        move    $a1, $at\n",
        "        move    $a1, $ra\n",
    ),
    entry(
        "s0 used as scratch",
        "mips",
        _KEPT,
        "        move    $a1, $at\n",
        "        move    $s0, $at\n        move    $a1, $s0\n",
    ),
    entry(
        "gp used as scratch",
        "mips",
        _KEPT,
        "        move    $a1, $at\n",
        "        move    $gp, $at\n        move    $a1, $gp\n",
    ),
    entry("graph: ra not restored", "mips", _GRAPH, "        lw   $ra, 24 - 4($sp)\n"),
    entry("graph: v1 of the result lost", "mips", _HANDLER, "        lw   $v1, 24 - 4($sp)\n"),
    entry(
        "graph: retval is v1",
        "mips",
        _HANDLER,
        "        move    $a1, $v0\n",
        "        move    $a1, $v1\n",
    ),
)

_ARM64 = (
    entry("x8 not restored", "arm64", _KEPT, "        ldr     x8, [sp, #64]\n"),
    entry("x18, the static chain, not saved", "arm64", _KEPT, "        str     x18, [sp, #144]\n"),
    entry(
        "x6 and x7 exchanged",
        "arm64",
        _KEPT,
        "        ldp     x6, x7, [sp, #48]\n        ldr     x8",
        "        ldp     x7, x6, [sp, #48]\n        ldr     x8",
    ),
    entry("x29 not restored", "arm64", _KEPT, "        ldr     x29, [sp, #232]\n"),
    entry(
        "parent_ip is x30",
        "arm64",
        _ARGUMENTS,
        "        mov     x1, x9\n",
        "        mov     x1, x30\n",
    ),
    entry(
        "ip is that of the first word",
        "arm64",
        _ARGUMENTS,
        "        sub     x0, x30, #4                     // MCOUNT_INSN_SIZE\n        stp     x3, x0",
        "        sub     x0, x30, #8\n        stp     x3, x0",
    ),
    entry(
        "the traced function's frame record returns to the site",
        "arm64",
        "function",
        "        stp     x29, x9, [sp, #288]\n",
        "        stp     x29, x30, [sp, #288]\n",
    ),
    entry(
        "the traced function has no frame record",
        "arm64",
        "function",
        "        add     x29, sp, #288\n        stp     x29, x30",
        "        stp     x29, x30",
    ),
    entry(
        "d8 used as scratch",
        "arm64",
        _KEPT,
        "        mov     x1, x9\n",
        "        mov     x1, x9\n        fmov    d8, xzr\n",
    ),
    entry(
        "graph: the result in q0 lost",
        "arm64",
        _HANDLER,
        "        mov     x1, x0\n",
        "        mov     x1, x0\n        fmov    d0, xzr\n",
    ),
    entry(
        "pt_regs: x28 not restored", "arm64", "changed pt_regs", "        ldr     x28, [sp, #224]\n"
    ),
    entry(
        "trace stop: x9 and x30 not exchanged",
        "arm64",
        _STOP,
        "        eor     x9, x9, x30\n        eor     x30, x9, x30\n        eor     x9, x9, x30\n        ret     x9",
        "        ret",
    ),
    entry(
        "graph: parent is x30 of ftrace_caller",
        "arm64",
        _FOUND,
        "        add     x0, sp, #240 ",
        "        add     x0, sp, #280 ",
    ),
    entry(
        "graph: x4 and x5 of the result lost",
        "arm64",
        _HANDLER,
        "        ldp     x4, x5, [sp, #32]\n        ldp     x6, x7, [sp, #48]\n        ldp     x0, x1, [sp], #64\n",
        "        ldp     x6, x7, [sp, #48]\n        ldp     x0, x1, [sp], #64\n",
    ),
    entry(
        "graph: frame of 72 bytes",
        "arm64",
        _HANDLER,
        "        stp     x0, x1, [sp, #-64]!\n",
        "        stp     x0, x1, [sp, #-72]!\n",
    ),
    entry(
        "parent_ip is the caller's x29",
        "arm64-mcount",
        _ARGUMENTS,
        "        ldr     x1, [x29, #8] ",
        "        ldr     x1, [x29] ",
    ),
    entry(
        "x29 not restored",
        "arm64-mcount",
        _KEPT,
        "        ldp     x29, x30, [sp], #16\n",
        "        ldp     x10, x30, [sp], #16\n",
    ),
    entry(
        "graph: parent is the caller's x29",
        "arm64-mcount",
        _FOUND,
        "        ldr     x2, [x0], #8 ",
        "        ldr     x2, [x0] ",
    ),
)

_BEFORE = {
    "x86_64": "        xor     ecx, ecx ",
    "ppc64": "        mr      %r5, %r0\n",
    "mips": "        move    $a1, $at\n",
    "arm64": "        mov     x1, x9\n",
}
"""The last instructions before the slot, which occur once."""


def _inserted(name: str, port: str, *lines: str) -> Mutant:
    """Return a mutant that executes `lines` just before the slot."""
    text = "".join(f"        {line}\n" for line in lines)
    return entry(name, port, _KEPT, _BEFORE[port], text + _BEFORE[port])


_CONTROLS = (
    _inserted("interrupts left off", "x86_64", "cli"),
    _inserted("gs exchanged", "x86_64", "swapgs"),
    _inserted(
        *("mxcsr rounds down", "x86_64", "push 0x3f80", "ldmxcsr [rsp]", "lea rsp, [rsp + 8]")
    ),
    _inserted("the x87 control word reset", "x86_64", "push 0x27f", "fldcw [rsp]", "pop rcx"),
    _inserted("the upper half of xmm7 lost", "x86_64", "movq xmm7, xmm7"),
    _inserted("interrupts left off", "arm64", "msr daifset, #2"),
    _inserted("fpcr rounds up", "arm64", "mov x10, #0x400000", "msr fpcr, x10"),
    _inserted("the upper half of q7 lost", "arm64", "fmov d7, d7"),
    _inserted("tpidr_el0 used as scratch", "arm64", "msr tpidr_el0, x9"),
    _inserted("sp_el0 used as scratch", "arm64", "msr sp_el0, x9"),
    _inserted(
        *("interrupts left off", "ppc64", "mfmsr %r6", "li %r7, 0", "ori %r7, %r7, 0x8000"),
        *("andc %r6, %r6, %r7", "mtmsrd %r6"),
    ),
    _inserted("fpscr rounds toward zero", "ppc64", "mtfsfi 7, 1"),
    _inserted(
        *("interrupts left off", "mips", ".word 0x40086000", "ori $t0, $t0, 1", "xori $t0, $t0, 1"),
        ".word 0x40886000",
    ),
    entry(
        "trace stop reads one byte",
        "ppc64",
        _STOP,
        "        lwz     %r0, function_trace_stop - here(%r11)\n",
        "        lbz     %r0, function_trace_stop - here(%r11)\n",
    ),
)
"""What a function may never change, and the two halves of a wide register."""

ENTRY_CODE = (*_X86, *_POWER, *_POWER32, *_MIPS, *_ARM64, *_CONTROLS)
