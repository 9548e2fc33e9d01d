/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The teaching kernel's own assembly on 32-bit MIPS, of both byte orders: its
 * first instructions, the task switch, and the function every call site calls
 * as compiled.
 *
 * Callee-saved registers: s0-s7, s8, gp, which nothing here uses, and ra for
 * itself (System V ABI, MIPS Processor Supplement, figure 3-18). A caller leaves
 * 16 bytes at sp for four arguments. Each branch takes the instruction behind it
 * along. task_struct.sp is at offset 0.
 */

/*
 * void _mcount(void)
 *
 * What the compiler put behind each function's prologue calls this, near or far:
 *
 *	move	at, ra			lui	v1, %hi(_mcount)
 *	jal	_mcount			addiu	v1, v1, %lo(_mcount)
 *	addiu	sp, sp, -8		move	at, ra
 *					jalr	v1
 *					addiu	sp, sp, -8
 *
 * To the compiler that is text and no call: it gives back the 8 bytes of stack
 * and ra, and keeps what may hold an argument, in a0-a3, or the static chain,
 * moved to v0. at, v1 and t0-t9 are free.
 *
 * Far sites go on calling this when they are enabled. So its first two words
 * are written over before the first site is, by `j ftrace_caller` and a nop;
 * they are these (27bd0008 03e00008).
 */
#define PTR_L lw
#define PTR_S sw
#define PTR_ADDIU addiu
#define PTR_SIZE 4
#define ARGUMENTS 16
#define UNDO_SITE addiu $sp, $sp, 8

#include "../switch.S"
