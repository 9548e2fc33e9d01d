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
	.text
	.set	noreorder
	.set	noat

	.macro	FUNCTION name
	.balign	64
	.globl	\name
	.type	\name, @function
\name:
	.endm

	.macro	END name
	.size	\name, . - \name
	.endm

/*
 * void _start(void)
 *
 * CPU 0 begins here, on no stack at all: give it that of task 0.
 */
	FUNCTION _start
	lui	$sp, %hi(init_stack + 16384)
	jal	start_kernel
	daddiu	$sp, $sp, %lo(init_stack + 16384)
1:	b	1b
	nop
	END	_start

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
	FUNCTION _mcount
	jr	$ra
	move	$ra, $1
	END	_mcount

/*
 * struct task_struct *__switch_to_asm(struct task_struct *prev, struct task_struct *next)
 *
 * Leave prev's registers on its stack, take next's from its own. Returns prev,
 * but to next's caller: v0 is not part of what is switched. The stack of a task
 * that does not run, from task_struct.sp up:
 *
 *	 0	s0 ... s7
 *	64	s8
 *	72	ra, the return address
 *	80	the caller's frame
 */
	FUNCTION __switch_to_asm
	daddiu	$sp, $sp, -80
	.irp	reg, 0, 1, 2, 3, 4, 5, 6, 7
	sd	$s\reg, 8*\reg($sp)
	.endr
	sd	$fp, 64($sp)
	sd	$ra, 72($sp)
	sd	$sp, 0($a0)
	ld	$sp, 0($a1)
	.irp	reg, 0, 1, 2, 3, 4, 5, 6, 7
	ld	$s\reg, 8*\reg($sp)
	.endr
	ld	$fp, 64($sp)
	ld	$ra, 72($sp)
	move	$v0, $a0
	jr	$ra
	daddiu	$sp, $sp, 80
	END	__switch_to_asm

/*
 * void *thread_frame(void *stack_top, int (*fn)(void *), void *arg)
 *
 * The picture above for a task that never ran: it "returns" into ret_from_fork
 * with fn in s0 and arg in s1. Returns the task's first sp.
 */
	FUNCTION thread_frame
	daddiu	$v0, $a0, -80
	lui	$t0, %hi(ret_from_fork)
	daddiu	$t0, $t0, %lo(ret_from_fork)
	sd	$a1, 0($v0)
	sd	$a2, 8($v0)
	.irp	reg, 2, 3, 4, 5, 6, 7, 8
	sd	$0, 8*\reg($v0)
	.endr
	jr	$ra
	sd	$t0, 72($v0)
	END	thread_frame

/*
 * A new task's first instructions: prev in v0, from __switch_to_asm.
 */
	.balign	64
	.type	ret_from_fork, @function
ret_from_fork:
	jal	schedule_tail
	move	$a0, $v0
	jalr	$s0
	move	$a0, $s1
	jal	do_exit
	move	$a0, $v0
1:	b	1b
	nop
	END	ret_from_fork

	.bss
	.balign	16384
	.globl	init_stack
	.type	init_stack, @object
init_stack:
	.skip	16384
	.size	init_stack, 16384

	.section .note.GNU-stack,"",@progbits
