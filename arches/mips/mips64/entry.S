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
#define PTR_L ld
#define PTR_S sd
#define PTR_ADDIU daddiu
#define PTR .quad
#define PTR_SIZE 8
#define STOP 32
#define FRAME 112
#define SITE_SP 112     // the site has taken nothing
#define IP 96
#define V1 88
#define BACK 80
#define PARENT_IP 72
#define A3 32
#define A2 24
#define A1 16
#define A0 8
#define V0 0
#define SAVE_FIRST
#define SAVE_MORE sd $a4, 40($sp); sd $a5, 48($sp); sd $a6, 56($sp); sd $a7, 64($sp)
#define SAVE_LAST sd $at, 72($sp); sd $ra, 80($sp)
#define RESTORE_MORE ld $a4, 40($sp); ld $a5, 48($sp); ld $a6, 56($sp); ld $a7, 64($sp)
#define STOPPED_RETURN jr $t0; move $ra, $at
#define SMALL 16
#include "../caller.S"
