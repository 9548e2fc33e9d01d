/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Atomic changes of a word that may be in a module, such as a lock. The compiler
 * provides them for every architecture except MIPS, where its code does not work
 * at such addresses.
 *
 * ll and sc translate their address. Modules are in kseg2, which is translated by
 * the TLB, and nothing fills the TLB here: in this machine, other loads and stores
 * need no translation. But a vCPU is switched only at the start of a block. So code
 * without a branch in a single page is atomic to all other CPUs, and 32 bytes that
 * are aligned to 32 are in a single page.
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

/* If *word is `old`, set it to `new` and return 1, else 0. `size` is 4 or that of a long. */
static inline int word_change(volatile void *word, long old, long new, size_t size)
{
	long found, other;

	if (size == 4) {
		old = (int)old; /* as lw loads it */
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
