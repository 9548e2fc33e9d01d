/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The teaching kernel's own assembly on MIPS: its first instructions, the task
 * switch, and the function every call site calls as compiled. The switch.S of each
 * port defines
 *
 *	PTR_L, PTR_S, PTR_ADDIU, PTR_SIZE	load, store, add a pointer; its bytes
 *	ARGUMENTS				bytes at sp for the arguments of a callee
 *	UNDO_SITE				takes back the stack that a site has taken
 *
 * A branch runs the instruction after it first. task_struct.sp is at offset 0.
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
 * CPU 0 begins here without a stack: give it that of task 0.
 */
	FUNCTION _start
	lui	$sp, %hi(init_stack + 16384 - ARGUMENTS)
	jal	start_kernel
	PTR_ADDIU $sp, $sp, %lo(init_stack + 16384 - ARGUMENTS)
1:	b	1b
	nop
	END	_start

/* void _mcount(void): each switch.S says what it gives back. */
	FUNCTION _mcount
	UNDO_SITE
	jr	$ra
	move	$ra, $1
	END	_mcount

/*
 * struct task_struct *__switch_to_asm(struct task_struct *prev, struct task_struct *next)
 *
 * Save prev's registers on its stack, load next's from its own. Returns prev,
 * but to next's caller: v0 is not switched. The stack of a task
 * that does not run, from task_struct.sp up, in units of PTR_SIZE:
 *
 *	 0	s0 ... s7
 *	 8	s8
 *	 9	ra, the return address
 *	10	the caller's frame
 */
	FUNCTION __switch_to_asm
	PTR_ADDIU $sp, $sp, -10*PTR_SIZE
	.irp	reg, 0, 1, 2, 3, 4, 5, 6, 7
	PTR_S	$s\reg, PTR_SIZE*\reg($sp)
	.endr
	PTR_S	$fp, 8*PTR_SIZE($sp)
	PTR_S	$ra, 9*PTR_SIZE($sp)
	PTR_S	$sp, 0($a0)
	PTR_L	$sp, 0($a1)
	.irp	reg, 0, 1, 2, 3, 4, 5, 6, 7
	PTR_L	$s\reg, PTR_SIZE*\reg($sp)
	.endr
	PTR_L	$fp, 8*PTR_SIZE($sp)
	PTR_L	$ra, 9*PTR_SIZE($sp)
	move	$v0, $a0
	jr	$ra
	PTR_ADDIU $sp, $sp, 10*PTR_SIZE
	END	__switch_to_asm

/*
 * void *thread_frame(void *stack_top, int (*fn)(void *), void *arg)
 *
 * Lay out the stack above for a task that never ran: it "returns" into ret_from_fork
 * with fn in s0 and arg in s1. Returns the task's first sp.
 */
	FUNCTION thread_frame
	PTR_ADDIU $v0, $a0, -ARGUMENTS - 10*PTR_SIZE
	lui	$t0, %hi(ret_from_fork)
	PTR_ADDIU $t0, $t0, %lo(ret_from_fork)
	PTR_S	$a1, 0($v0)
	PTR_S	$a2, PTR_SIZE($v0)
	.irp	reg, 2, 3, 4, 5, 6, 7, 8
	PTR_S	$0, PTR_SIZE*\reg($v0)
	.endr
	jr	$ra
	PTR_S	$t0, 9*PTR_SIZE($v0)
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

#include "../guest/init_stack.S"
