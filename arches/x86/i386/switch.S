/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The teaching kernel's own assembly on 32-bit x86: its first instructions, the
 * task switch, and the function every call site calls as compiled.
 *
 * Callee-saved registers: ebx, esi, edi, ebp (System V ABI, Intel386 supplement,
 * figure 3-14); arguments come in eax, edx, ecx (-mregparm=3). task_struct.sp is at
 * offset 0.
 */
	.text

/*
 * void _start(void)
 *
 * CPU 0 begins here without a stack: give it that of task 0.
 */
	.globl	_start
	.type	_start, @function
_start:
	movl	$init_stack + 16384, %esp
	xorl	%ebp, %ebp
	call	start_kernel
1:	jmp	1b
	.size	_start, . - _start

/*
 * void __fentry__(void)
 *
 * The compiler's code at the start of each function calls this. It must not
 * change any register: the function's arguments are in them.
 */
	.globl	__fentry__
	.type	__fentry__, @function
__fentry__:
	ret
	.size	__fentry__, . - __fentry__

/*
 * struct task_struct *__switch_to_asm(struct task_struct *prev, struct task_struct *next)
 *
 * Save prev's registers on its stack, load next's from its own. Returns prev,
 * which is in eax already, but to next's caller: eax is not switched.
 * The stack of a task that does not run, from task_struct.sp up:
 *
 *	edi esi ebx ebp, return address
 */
	.globl	__switch_to_asm
	.type	__switch_to_asm, @function
__switch_to_asm:
	pushl	%ebp
	pushl	%ebx
	pushl	%esi
	pushl	%edi
	movl	%esp, (%eax)
	movl	(%edx), %esp
	popl	%edi
	popl	%esi
	popl	%ebx
	popl	%ebp
	ret
	.size	__switch_to_asm, . - __switch_to_asm

/*
 * void *thread_frame(void *stack_top, int (*fn)(void *), void *arg)
 *
 * Lay out the stack above for a task that never ran: it "returns" into
 * ret_from_fork with fn in ebx and arg in esi. Returns the task's first sp.
 */
	.globl	thread_frame
	.type	thread_frame, @function
thread_frame:
	subl	$24, %eax
	movl	$0, (%eax)
	movl	%ecx, 4(%eax)
	movl	%edx, 8(%eax)
	movl	$0, 12(%eax)
	movl	$ret_from_fork, 16(%eax)
	movl	$0, 20(%eax)
	ret
	.size	thread_frame, . - thread_frame

/*
 * A new task's first instructions: prev in eax, from __switch_to_asm.
 */
	.type	ret_from_fork, @function
ret_from_fork:
	call	schedule_tail
	movl	%esi, %eax
	call	*%ebx
	call	do_exit
1:	jmp	1b
	.size	ret_from_fork, . - ret_from_fork

#include "../../guest/init_stack.S"
