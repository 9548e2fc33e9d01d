/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The teaching kernel's own assembly on 64-bit MIPS: its first instructions,
 * the task switch, and the function every call site calls as compiled.
 *
 * Callee-saved registers of the ABI n64: s0-s7, s8, gp, which nothing here uses,
 * and ra for itself (MIPSpro N32 ABI Handbook, table 2-1, which is that of n64
 * too). A caller leaves nothing at sp, which is a multiple of 16. Each branch
 * takes the instruction behind it along. The kernel's addresses are 32 bits that
 * are sign-extended: two instructions make one. task_struct.sp is at offset 0.
 */

/*
 * void _mcount(void)
 *
 * What the compiler put behind each function's prologue calls this, near or far:
 *
 *	move	at, ra			lui	v1, %hi(_mcount)
 *	jal	_mcount			daddiu	v1, v1, %lo(_mcount)
 *	nop				move	at, ra
 *					jalr	v1
 *					nop
 *
 * To the compiler that is text and no call: it gives back ra, and keeps what may
 * hold an argument, in a0-a7, or the static chain, moved to v0. at, v1, t0-t3, t8
 * and t9 are free.
 *
 * Far sites go on calling this when they are enabled. So its first two words
 * are written over before the first site is, by `j ftrace_caller` and a nop;
 * they are all of it (03e00008 0020f825).
 */
#define PTR_L ld
#define PTR_S sd
#define PTR_ADDIU daddiu
#define PTR_SIZE 8
#define ARGUMENTS 0
#define UNDO_SITE

#include "../switch.S"
