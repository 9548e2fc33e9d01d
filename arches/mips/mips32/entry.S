/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The code that an enabled call site leads to, for 32-bit MIPS of both byte orders, within
 * reach of the kernel's jumps (256 MB). A branch runs the instruction in its delay slot,
 * after it, first.
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
 * On entry   all arguments of the traced function in a0..a3 and above its sp; v0,
 *            the static chain; at: the traced function's return address,
 *            which ra must be then; ra: the address after the site. The delay slot
 *            has taken 8 bytes of stack, which are given back. A site whose delay slot
 *            is a nop (`--nop linux`) enters at ftrace_caller + 8, as in Linux
 * Keeps      a0..a3, v0, v1 and at; s0..s7, s8 and gp because the tracer does
 * Clobbers   t0..t9, hi and lo, on which no function may depend
 *
 * ip is rec.ip: for a near site the call, 8 bytes before the return address; for a
 * far one its first instruction, another 12 to 20 bytes before. The call instruction
 * decides; the kernel has far sites only if it was built with -mlong-calls.
 *
 * The stack at ftrace_call, lowest address at the bottom. A caller leaves 16
 * bytes for the arguments of its callee.
 *
 *     sp + 52   the return address of ftrace_caller         ip + 8, or + 20 to 28
 *     sp + 48   at                                          parent_ip
 *     sp + 40   ip
 *     sp + 36   v1
 *     sp + 32   a3
 *     sp + 28   a2
 *     sp + 24   a1
 *     sp + 20   a0
 *     sp + 16   v0
 *     sp        the tracer's
 */
#define PTR_L lw
#define PTR_S sw
#define PTR_ADDIU addiu
#define PTR .word
#define PTR_SIZE 4
#define GIVE_BACK nop; addiu $sp, $sp, 8       // a site with a nop in its slot enters after it
#define FRAME 56
#define BACK 52
#define PARENT_IP 48
#define IP 40
#define V1 36
#define A3 32
#define A2 28
#define A1 24
#define A0 20
#define V0 16
#define SAVE_FIRST sw $ra, 52($sp); sw $at, 48($sp)
#define SAVE_LAST
#define SAVE_MORE
#define RESTORE_MORE
#define STOPPED_RETURN jr $t0; move $ra, $at
// The `lui v1` of a far site is its fifth, sixth or seventh word from the end. It may be a branch
// or a nop by now, if the site was disabled while a task was in it. What is before the site
// must not be read: there may be no page.
#define FAR_IP lw $t0, -20($ra); ori $t1, $zero, 0x3c03; ori $t2, $zero, 0x1000; srl $t0, $t0, 16; beq $t0, $t1, far; nop; beq $t0, $t2, far; nop; beq $t0, $zero, far; nop; lw $t0, -24($ra); addiu $a0, $a0, -4; srl $t0, $t0, 16; beq $t0, $t1, far; nop; beq $t0, $t2, far; nop; beq $t0, $zero, far; nop; addiu $a0, $a0, -4
#define SMALL 24        // with 16 bytes for the callee's arguments
#include "../caller.S"
