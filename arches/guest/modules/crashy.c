// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A module that misbehaves, to show what happens then. Loading it is harmless;
 * call its functions:
 *
 *   call crashy_scribble ADDRESS   stores to the call site at ADDRESS (0: that of
 *                                  schedule); code is not writable: an oops
 *   call crashy_jump ADDRESS       jumps to ADDRESS (0: an invalid address)
 *   call crashy_recurse N          calls itself N times; the result is N
 *   call crashy_frame 1            returns with the wrong frame
 */
#include "module.h"
#include "sched.h"

/* Bytes that ftrace never expects. */
#ifdef __powerpc__
static const u8 scribble[] = { 0x00, 0x00, 0x00, 0x00 }; /* never an instruction */

/* After the prologue: the function's first nop or bl. */
static notrace unsigned long site_of(unsigned long code)
{
	const u32 *insn = (const u32 *)code;

	while (*insn && *insn != 0x60000000 && *insn >> 26 != 18)
		insn++;
	return (unsigned long)insn;
}
#else
/* Code that depends on the architecture. */
static const u8 scribble[] = NO_INSTRUCTION;
#define site_of CALL_SITE
#endif

long crashy_scribble(unsigned long address)
{
	volatile u8 *p = (volatile u8 *)(address ? address : site_of(FUNCTION_CODE(schedule)));

	for (unsigned int i = 0; i < sizeof(scribble); i++)
		p[i] = scribble[i];
	printk("crashy: wrote over %p", (void *)p);
	return 0;
}
EXPORT_SYMBOL(crashy_scribble);

#if defined(_CALL_ELF) && _CALL_ELF == 1
/* A function pointer is a descriptor: make one for any code, with the kernel's TOC. */
static inline void jump_to(void (*code)(void))
{
	const volatile unsigned long descriptor[] = {
		(unsigned long)code, ((const unsigned long *)schedule)[1], 0,
	};

	((void (*)(void))descriptor)();
}
#else
#define jump_to(code) (code)()
#endif

long crashy_jump(unsigned long address)
{
	void (*nowhere)(void) = (void (*)(void))(address ? address : 0xdead0000ul);

	printk("crashy: jumping to %p", (void *)nowhere);
	jump_to(nowhere);
	return 0;
}
EXPORT_SYMBOL(crashy_jump);

long crashy_recurse(unsigned long n)
{
	long below = 0;

	if (n)
		below = crashy_recurse(n - 1) + 1;
	/* Work after the call, or the compiler would make this a loop. */
	barrier();
	return below;
}
EXPORT_SYMBOL(crashy_recurse);

/* A 64-bit result, in two registers on 32-bit ports. */
u64 crashy_multiply(u64 a, u64 b)
{
	return a * b;
}

/* A number with twelve digits: return 1 if it comes back intact. */
long crashy_wide(void)
{
	return crashy_multiply(1234567, 891011) == 1100012777237ull;
}
EXPORT_SYMBOL(crashy_wide);

/*
 * Leave an extra word on the stack and return from a copy of the return address. If the
 * port compares a frame pointer register, change that register instead.
 */
#if defined(CONFIG_FTRACED)
#define BREAK_FRAME "pushq 8(%%rsp); pushq 8(%%rsp)"
#elif defined(__x86_64__)
#define BREAK_FRAME "pushq (%%rsp)"
#elif defined(__i386__)
#define BREAK_FRAME "pushl (%%esp)"
#elif defined(__powerpc64__)
/* lr is saved 16 above the caller's frame, r31 8 below it. */
#define BREAK_FRAME                                                             \
	"ld 11, 0(1); ld 0, 16(11); std 0, -16(11); ld 0, -8(11); std 0, -40(11);" \
	"addi 1, 1, -32"
#elif defined(__powerpc__)
#define BREAK_FRAME "addi 1, 1, -16"
#elif defined(CC_USING_PATCHABLE_FUNCTION_ENTRY)
#define BREAK_FRAME "sub sp, sp, #16"
#elif defined(__aarch64__)
#define BREAK_FRAME "ldr x9, [x29]; sub x9, x9, #16; str x9, [x29]"
#elif defined(__mips__)
#define BREAK_FRAME "addiu $sp, $sp, -16"
#else
#define BREAK_FRAME ""
#endif

void crashy_frame(unsigned long another)
{
	if (another)
		__asm__ volatile(BREAK_FRAME ::: "memory");
}
EXPORT_SYMBOL(crashy_frame);

static int crashy_init(void)
{
	printk("crashy: loaded, be careful");
	return 0;
}

static void crashy_exit(void)
{
	printk("crashy: unloaded");
}

MODULE_LICENSE("GPL");
DEFINE_MODULE("crashy", "", crashy_init, crashy_exit);
