/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The teaching kernel's own assembly on x86-64: its first instructions, the
 * task switch, and the function every call site calls as compiled.
 *
 * Callee-saved registers: rbx, rbp, r12-r15 (System V ABI, AMD64 supplement,
 * figure 3.4). task_struct.sp is at offset 0.
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
	movq	$init_stack + 16384, %rsp
	xorl	%ebp, %ebp
	call	start_kernel
1:	jmp	1b
	.size	_start, . - _start

#ifndef CONFIG_FTRACED /* whose sites call mcount: ../x86_64_2008/switch.S */
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
#endif

/*
 * struct task_struct *__switch_to_asm(struct task_struct *prev, struct task_struct *next)
 *
 * Save prev's registers on its stack, load next's from its own. Returns prev,
 * but to next's caller: rax is not switched. The stack of a
 * task that does not run, from task_struct.sp up:
 *
 *	r15 r14 r13 r12 rbx rbp, return address
 */
	.globl	__switch_to_asm
	.type	__switch_to_asm, @function
__switch_to_asm:
	pushq	%rbp
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	movq	%rsp, (%rdi)
	movq	(%rsi), %rsp
	movq	%rdi, %rax
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	popq	%rbp
	ret
	.size	__switch_to_asm, . - __switch_to_asm

/*
 * void *thread_frame(void *stack_top, int (*fn)(void *), void *arg)
 *
 * Lay out the stack above for a task that never ran: it "returns" into
 * ret_from_fork with fn in rbx and arg in r12. The topmost word keeps the
 * stack 16-byte aligned there. Returns the task's first sp.
 */
	.globl	thread_frame
	.type	thread_frame, @function
thread_frame:
	leaq	-64(%rdi), %rax
	movq	$0, (%rax)
	movq	$0, 8(%rax)
	movq	$0, 16(%rax)
	movq	%rdx, 24(%rax)
	movq	%rsi, 32(%rax)
	movq	$0, 40(%rax)
	movq	$ret_from_fork, 48(%rax)
	movq	$0, 56(%rax)
	ret
	.size	thread_frame, . - thread_frame

/*
 * A new task's first instructions: prev in rax, from __switch_to_asm.
 */
	.type	ret_from_fork, @function
ret_from_fork:
	subq	$8, %rsp
	movq	%rax, %rdi
	call	schedule_tail
	movq	%r12, %rdi
	call	*%rbx
	movl	%eax, %edi
	call	do_exit
1:	jmp	1b
	.size	ret_from_fork, . - ret_from_fork

#include "../../guest/init_stack.S"
