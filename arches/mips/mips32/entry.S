/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What an enabled call site leads to, for 32-bit MIPS of both byte orders. It is
 * assembled for 0x81200000, within the 256 MB a jump of the kernel stays in.
 * Each branch takes the instruction behind it along.
 *
 * void ftrace_stub(unsigned long ip, unsigned long parent_ip,
 *                  struct ftrace_ops *op, struct pt_regs *regs)
 *
 * The tracer that does nothing.
 */
        .set    noreorder
        .set    noat
        .globl ftrace_stub
ftrace_stub:
        jr      $ra
        nop

/* struct ftrace_ops *function_trace_op: what the tracer gets as `op`. */
        .globl function_trace_op
function_trace_op:
        .word   0
        .word   0

/*
 * void ftrace_caller(void)
 *
 * Not a function of C: to the compiler a site is text behind the prologue, which
 * it believes to change nothing but at and, in a far one, v1. A near site comes
 * here by `jal`, of the kernel directly and of a module through a trampoline; a
 * far one by `jalr v1` through _mcount, which has become a jump. It calls,
 * through the slot at ftrace_call,
 *
 *     void tracer(unsigned long ip, unsigned long parent_ip,
 *                 struct ftrace_ops *op, struct pt_regs *regs)
 *
 * On entry   all arguments of the traced function in a0..a3 and above its sp; v0,
 *            the static chain; at: where the traced function returns to, which
 *            ra shall be then; ra: where the site goes on. The site has taken
 *            8 bytes of stack, which are given back
 * Keeps      a0..a3, v0, v1 and at; s0..s7, s8 and gp because the tracer does
 * Clobbers   t0..t9, hi and lo, of which no function may expect anything
 *
 * ip is rec.ip: the call of a near site, 8 before where it returns to, and the
 * first instruction of a far one, another 12 before. The kernel's sites are all
 * near; of those of modules, which lie from 0xc0000000 on, the call tells.
 *
 * The stack at ftrace_call, lowest address at the bottom. A caller leaves 16
 * bytes for the arguments of a function it calls.
 *
 *     sp + 44   where ftrace_caller returns to              ip + 8 or ip + 20
 *     sp + 40   at                                          parent_ip
 *     sp + 36   v1
 *     sp + 32   a3
 *     sp + 28   a2
 *     sp + 24   a1
 *     sp + 20   a0
 *     sp + 16   v0
 *     sp        the tracer's
 */
        .globl ftrace_caller
ftrace_caller:
        addiu   $sp, $sp, -40
        sw      $ra, 44($sp)                    // these two in the site's bytes
        sw      $at, 40($sp)
        sw      $v0, 16($sp)
        sw      $v1, 36($sp)
        sw      $a0, 20($sp)
        sw      $a1, 24($sp)
        sw      $a2, 28($sp)
        sw      $a3, 32($sp)

        sll     $t0, $ra, 1                     // bit 30: in a module
        bgez    $t0, near
        addiu   $a0, $ra, -8
        lw      $t0, 0($a0)
        lui     $t1, 0x0060                     // jalr v1
        ori     $t1, $t1, 0xf809
        bne     $t0, $t1, near
        nop
        addiu   $a0, $a0, -12
near:
        move    $a1, $at
        lui     $a2, 0x8120                     // function_trace_op
        lw      $a2, 8($a2)
        move    $a3, $zero                      // no pt_regs were saved

        /* The slot: rewritten to call the one tracer, or the list of them. */
        .globl ftrace_call
ftrace_call:
        jal     0x81200000                      // ftrace_stub
        nop

        lw      $t0, 44($sp)
        lw      $ra, 40($sp)
        lw      $v0, 16($sp)
        lw      $v1, 36($sp)
        lw      $a0, 20($sp)
        lw      $a1, 24($sp)
        lw      $a2, 28($sp)
        lw      $a3, 32($sp)
        move    $at, $ra
        jr      $t0
        addiu   $sp, $sp, 48
