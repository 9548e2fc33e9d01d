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
	lui	$sp, %hi(init_stack + 16384 - 16)
	jal	start_kernel
	addiu	$sp, $sp, %lo(init_stack + 16384 - 16)
1:	b	1b
	nop
	END	_start

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
	FUNCTION _mcount
	addiu	$sp, $sp, 8
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
 *	32	s8
 *	36	ra, the return address
 *	40	the caller's frame
 */
	FUNCTION __switch_to_asm
	addiu	$sp, $sp, -40
	.irp	reg, 0, 1, 2, 3, 4, 5, 6, 7
	sw	$s\reg, 4*\reg($sp)
	.endr
	sw	$fp, 32($sp)
	sw	$ra, 36($sp)
	sw	$sp, 0($a0)
	lw	$sp, 0($a1)
	.irp	reg, 0, 1, 2, 3, 4, 5, 6, 7
	lw	$s\reg, 4*\reg($sp)
	.endr
	lw	$fp, 32($sp)
	lw	$ra, 36($sp)
	move	$v0, $a0
	jr	$ra
	addiu	$sp, $sp, 40
	END	__switch_to_asm

/*
 * void *thread_frame(void *stack_top, int (*fn)(void *), void *arg)
 *
 * The picture above for a task that never ran: it "returns" into ret_from_fork
 * with fn in s0 and arg in s1. Returns the task's first sp.
 */
	FUNCTION thread_frame
	addiu	$v0, $a0, -16 - 40
	lui	$t0, %hi(ret_from_fork)
	addiu	$t0, $t0, %lo(ret_from_fork)
	sw	$a1, 0($v0)
	sw	$a2, 4($v0)
	.irp	reg, 2, 3, 4, 5, 6, 7, 8
	sw	$0, 4*\reg($v0)
	.endr
	jr	$ra
	sw	$t0, 36($v0)
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
