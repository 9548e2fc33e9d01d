/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The teaching kernel's own assembly on 32-bit MIPS, of both byte orders: its
 * first instructions, the task switch, and the function every call site calls
 * as compiled.
 *
 * Callee-saved registers: s0-s7, s8, gp, which nothing here uses, and ra for
 * itself (System V ABI, MIPS Processor Supplement, figure 3-18). A caller leaves
 * 16 bytes at sp for four arguments. The instruction after each branch, in its
 * delay slot, runs first. task_struct.sp is at offset 0.
 */

/*
 * void _mcount(void)
 *
 * The compiler's code after each function's prologue calls this, near or far:
 *
 *	move	at, ra			lui	v1, %hi(_mcount)
 *	jal	_mcount			addiu	v1, v1, %lo(_mcount)
 *	addiu	sp, sp, -8		move	at, ra
 *					jalr	v1
 *					addiu	sp, sp, -8
 *
 * The compiler does not treat this as a call: it gives back the 8 bytes of stack
 * and ra, and keeps a0-a3, which may hold arguments, and v0, which may hold the
 * static chain. at, v1 and t0-t9 are free.
 *
 * Far sites still call this when they are enabled. So its first two words
 * (27bd0008 03e00008) are replaced by `j ftrace_caller` and a nop, before the
 * first site is enabled.
 */
#define PTR_L lw
#define PTR_S sw
#define PTR_ADDIU addiu
#define PTR_SIZE 4
#define ARGUMENTS 16
#define UNDO_SITE addiu $sp, $sp, 8

#include "../switch.S"
