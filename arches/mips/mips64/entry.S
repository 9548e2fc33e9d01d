/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What an enabled call site leads to, for 64-bit MIPS. It is assembled for
 * 0xffffffff81200000, within the 256 MB a jump of the kernel stays in. Each
 * branch takes the instruction behind it along.
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

/* What is called below beside the tracer. */
prepare:
        .quad   prepare_ftrace_return_mips
handler:
        .quad   ftrace_return_to_handler

/* unsigned int function_trace_stop: while it is not 0, nothing is traced. */
        .globl function_trace_stop
function_trace_stop:
        .word   0
        .word   0

/*
 * void ftrace_caller(void)
 *
 * Not a function of C: to the compiler a site is text behind the prologue, which
 * it believes to change nothing but at and, in a far one, v1. A near site comes
 * here by `jal`, of the kernel directly and of a module through a stub; a
 * far one by `jalr v1` through _mcount, which has become a jump. It calls,
 * through the slot at ftrace_call,
 *
 *     void tracer(unsigned long ip, unsigned long parent_ip,
 *                 struct ftrace_ops *op, struct pt_regs *regs)
 *
 * On entry   all arguments of the traced function in a0..a7 and above its sp; v0,
 *            the static chain; at: where the traced function returns to, which
 *            ra shall be then; ra: where the site goes on
 * Keeps      a0..a7, v0, v1 and at; s0..s7, s8 and gp because the tracer does
 * Clobbers   t0..t3, t8, t9, hi and lo, of which no function may expect
 *            anything
 *
 * ip is rec.ip: the call of a near site, 8 before where it returns to, and the
 * first instruction of a far one, another 12 before. The kernel's sites are all
 * near; of those of modules, which lie from 0x...c0000000 on, the call tells.
 *
 * The stack at ftrace_call, lowest address at the bottom. A caller leaves nothing
 * for the arguments of a function it calls.
 *
 *     sp + 96   ip
 *     sp + 88   v1
 *     sp + 80   where ftrace_caller returns to              ip + 8 or ip + 20
 *     sp + 72   at                                          parent_ip
 *     sp + 64   a7
 *     sp + 56   a6
 *     sp + 48   a5
 *     sp + 40   a4
 *     sp + 32   a3
 *     sp + 24   a2
 *     sp + 16   a1
 *     sp +  8   a0
 *     sp        v0
 */
        .globl ftrace_caller
ftrace_caller:
        /* HAVE_FUNCTION_TRACE_MCOUNT_TEST */
        lui     $t0, 0x8120                     // function_trace_stop
        lw      $t0, 32($t0)
        bnez    $t0, stopped
        nop

        daddiu  $sp, $sp, -112
        sd      $v0, 0($sp)
        sd      $v1, 88($sp)
        sd      $a0, 8($sp)
        sd      $a1, 16($sp)
        sd      $a2, 24($sp)
        sd      $a3, 32($sp)
        sd      $a4, 40($sp)
        sd      $a5, 48($sp)
        sd      $a6, 56($sp)
        sd      $a7, 64($sp)
        sd      $at, 72($sp)
        sd      $ra, 80($sp)

        sll     $t0, $ra, 1                     // bit 30: in a module
        bgez    $t0, near
        daddiu  $a0, $ra, -8
        lw      $t0, 0($a0)
        lui     $t1, 0x0060                     // jalr v1
        ori     $t1, $t1, 0xf809
        bne     $t0, $t1, near
        nop
        daddiu  $a0, $a0, -12
near:
        sd      $a0, 96($sp)
        move    $a1, $at
        lui     $a2, 0x8120                     // function_trace_op
        ld      $a2, 8($a2)
        move    $a3, $zero                      // no pt_regs were saved

        /* The slot: rewritten to call the one tracer, or the list of them. */
        .globl ftrace_call
ftrace_call:
        jal     0x81200000                      // ftrace_stub
        nop

        /* The second slot: a call of ftrace_graph_caller, while returns are traced too. */
        .globl ftrace_graph_call
ftrace_graph_call:
        nop
        nop

        ld      $t0, 80($sp)
        ld      $ra, 72($sp)
        ld      $v0, 0($sp)
        ld      $v1, 88($sp)
        ld      $a0, 8($sp)
        ld      $a1, 16($sp)
        ld      $a2, 24($sp)
        ld      $a3, 32($sp)
        ld      $a4, 40($sp)
        ld      $a5, 48($sp)
        ld      $a6, 56($sp)
        ld      $a7, 64($sp)
        move    $at, $ra
        jr      $t0
        daddiu  $sp, $sp, 112
stopped:
        move    $t0, $ra
        jr      $t0
        move    $ra, $at

/*
 * void ftrace_graph_caller(void)
 *
 * Called in the frame of ftrace_caller, to have the traced function return through
 * return_to_handler: it may have stored ra in its own frame, and this finds where:
 *
 *     void prepare_ftrace_return_mips(unsigned long self_addr, unsigned long sp,
 *                                     unsigned long *ra)
 */
        .globl ftrace_graph_caller
ftrace_graph_caller:
        lui     $t9, 0x8120                     // prepare
        ld      $t9, 16($t9)
        ld      $a0, 96($sp)
        daddiu  $a1, $sp, 112                   // sp of the traced function
        daddiu  $a2, $sp, 72                    // at: what its ra will be
        daddiu  $sp, $sp, -16
        sd      $ra, 8($sp)
        jalr    $t9
        nop
        ld      $ra, 8($sp)
        jr      $ra
        daddiu  $sp, $sp, 16

/*
 * void return_to_handler(void)
 *
 * Where a function returns to while it is traced. Returns for it, with its result
 * in v0 and v1, to what this says:
 *
 *     unsigned long ftrace_return_to_handler(unsigned long frame_pointer,
 *                                            unsigned long retval)
 */
        .globl return_to_handler
return_to_handler:
        lui     $t9, 0x8120                     // handler
        ld      $t9, 24($t9)
        daddiu  $sp, $sp, -16
        sd      $v0, 0($sp)
        sd      $v1, 8($sp)
        daddiu  $a0, $sp, 16
        jalr    $t9
        move    $a1, $v0
        move    $ra, $v0
        ld      $v0, 0($sp)
        ld      $v1, 8($sp)
        jr      $ra
        daddiu  $sp, $sp, 16
