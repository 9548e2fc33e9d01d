/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The teaching kernel's own assembly on 64-bit MIPS: its first instructions,
 * the task switch, and the function every call site calls as compiled.
 *
 * Callee-saved registers of the ABI n64: s0-s7, s8, gp, which nothing here uses,
 * and ra for itself (MIPSpro N32 ABI Handbook, table 2-1, which is that of n64
 * too). A caller leaves no room at sp, which is a multiple of 16. A branch runs
 * the instruction in its delay slot first. The kernel's addresses are sign-extended
 * from 32 bits: two instructions load one. task_struct.sp is at offset 0.
 */

/*
 * void _mcount(void)
 *
 * The compiler's code after each function's prologue calls this, near or far:
 *
 *	move	at, ra			lui	v1, %hi(_mcount)
 *	jal	_mcount			daddiu	v1, v1, %lo(_mcount)
 *	nop				move	at, ra
 *					jalr	v1
 *					nop
 *
 * The compiler does not treat this as a call: it gives back ra, and keeps a0-a7,
 * which may hold arguments, and v0, which may hold the static chain. at, v1,
 * t0-t3, t8 and t9 are free.
 *
 * Far sites still call this when they are enabled. So its two words
 * (03e00008 0020f825) are replaced by `j ftrace_caller` and a nop, before the
 * first site is enabled.
 */
#define PTR_L ld
#define PTR_S sd
#define PTR_ADDIU daddiu
#define PTR_SIZE 8
#define ARGUMENTS 0
#define UNDO_SITE

#include "../switch.S"
