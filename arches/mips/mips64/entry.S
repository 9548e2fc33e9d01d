/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The code that an enabled call site leads to, for 64-bit MIPS, within reach of the
 * kernel's jumps (256 MB). A branch runs the instruction in its delay slot, after it,
 * first.
 *
 * void ftrace_stub(unsigned long ip, unsigned long parent_ip,
 *                  struct ftrace_ops *op, struct pt_regs *regs)
 *
 * The tracer that does nothing.
 */

/*
 * void ftrace_caller(void)
 *
 * Not a C function: to the compiler a site is text after the prologue that
 * changes only at and, in a far one, v1. A near site comes here by `jal`:
 * directly in the kernel, through a stub in a module. A far one comes by
 * `jalr v1` through _mcount, which has become a jump. It calls, through the
 * slot at ftrace_call,
 *
 *     void tracer(unsigned long ip, unsigned long parent_ip,
 *                 struct ftrace_ops *op, struct pt_regs *regs)
 *
 * On entry   all arguments of the traced function in a0..a7 and above its sp; v0,
 *            the static chain; at: the traced function's return address,
 *            which ra must be then; ra: the address after the site
 * Keeps      a0..a7, v0, v1 and at; s0..s7, s8 and gp because the tracer does
 * Clobbers   t0..t3, t8, t9, hi and lo, on which no function may
 *            depend
 *
 * ip is rec.ip: for a near site the call, 8 bytes before the return address; for a
 * far one its first instruction, another 12 bytes before. The call instruction
 * decides; the kernel has far sites only if it was built with -mlong-calls.
 *
 * The stack at ftrace_call, lowest address at the bottom. A caller leaves no
 * room for the arguments of its callee.
 *
 *     sp + 96   ip
 *     sp + 88   v1
 *     sp + 80   the return address of ftrace_caller         ip + 8 or ip + 20
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
#define GIVE_BACK       // nothing: the delay slot has a nop
#define FRAME 112
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
// A far site is five words, or nine if its fifth from the end is not `lui v1`.
#define FAR_IP lhu $t0, -20($ra); ori $t1, $zero, 0x3c03; bne $t0, $t1, near; daddiu $a0, $a0, -28; daddiu $a0, $a0, 28
#define SMALL 16
#include "../caller.S"
