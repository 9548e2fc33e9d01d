// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A module that misbehaves, to see what becomes of it. Nothing happens when it
 * is loaded; its functions are there to be called:
 *
 *   call crashy_scribble ADDRESS   writes over the call site at ADDRESS (0: that
 *                                  of schedule), which ftrace then finds wrong
 *   call crashy_jump ADDRESS       jumps there (0: to nowhere)
 */
#include "module.h"
#include "sched.h"

/* What ftrace expects nowhere. */
#ifdef __powerpc__
static const u8 scribble[] = { 0x00, 0x00, 0x00, 0x00 }; /* never an instruction */

/* Behind the prologue: the function's first nop or bl. */
static notrace unsigned long site_of(unsigned long code)
{
	const u32 *insn = (const u32 *)code;

	while (*insn && *insn != 0x60000000 && *insn >> 26 != 18)
		insn++;
	return (unsigned long)insn;
}
#else
/* What only the architecture can say. */
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
/* A function pointer is a descriptor: one for any code, with the kernel's TOC pointer. */
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
