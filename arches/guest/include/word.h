/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Atomic changes of a word that may lie in a module, as locks do. The compiler
 * has them for every architecture but MIPS: what it makes there cannot be had
 * for such addresses.
 *
 * ll and sc ask for the translation of an address, and where modules lie (kseg2)
 * that is the TLB's, which nobody fills here: other loads and stores need none
 * in this machine. But a vCPU gives way only where a block of code begins. So a
 * stretch without a branch that lies in one page is one step to whoever else
 * runs, and 32 bytes aligned to 32 lie in one page.
 */
#ifndef WORD_H
#define WORD_H

#include "kernel.h"

#ifdef __mips__

#define STEP_CMPXCHG(type, load, store)                                         \
	__asm__ volatile(".set push\n\t"                                        \
			 ".set noreorder\n\t"                                   \
			 ".balign 32\n\t"                                       \
			 load "	%0, %2\n\t"                                     \
			 "xor	%1, %0, %3\n\t"                                 \
			 "sltu	%1, $0, %1\n\t"                                 \
			 "movz	%0, %4, %1\n\t"                                 \
			 store "	%0, %2\n\t"                             \
			 ".set pop"                                             \
			 : "=&r"(found), "=&r"(other), "+m"(*(type *)word)      \
			 : "r"(old), "r"(new)                                   \
			 : "memory")

/* If *word is `old` make it `new`: 1, else 0. `size` is that of the word, 4 or a long's. */
static inline int word_change(volatile void *word, long old, long new, size_t size)
{
	long found, other;

	if (size == 4) {
		old = (int)old; /* as lw has it */
		STEP_CMPXCHG(int, "lw", "sw");
	} else {
		STEP_CMPXCHG(long, "ld", "sd");
	}
	return !other;
}

#define word_modify(p, value)                                                   \
	({                                                                      \
		__typeof__(*(p)) word_;                                         \
		do                                                              \
			word_ = READ_ONCE(*(p));                                \
		while (!word_change(p, word_, value, sizeof(*(p))));            \
		word_;                                                          \
	})

#define __atomic_compare_exchange_n(p, old, new, weak, order, order_of_failure) \
	word_change(p, *(old), new, sizeof(*(p)))
#define __atomic_exchange_n(p, n, order) word_modify(p, n)
#define __atomic_fetch_add(p, n, order) word_modify(p, word_ + (n))
#define __atomic_fetch_or(p, n, order) word_modify(p, word_ | (n))
#define __atomic_fetch_and(p, n, order) word_modify(p, word_ & (n))

#endif

#endif
