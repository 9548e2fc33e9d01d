// SPDX-License-Identifier: GPL-2.0-or-later
/* The kernel log: sends lines to the machine. Modelled on kernel/printk and kernel/panic.c. */
#include "module.h"
#include "preempt.h"
#include "lock.h"

#define LOG_LINE_MAX 160

static DEFINE_SPINLOCK(console_sem);
static char printk_buf[LOG_LINE_MAX]; /* the pending line, of the holder of console_sem */

static void console_write(const char *text, int len)
{
	machine_call(HC_PRINTK, ADDR(text), len, 0, 0);
}

static unsigned long console_lock(void)
{
	unsigned long flags;

	spin_lock_irqsave(&console_sem, flags);
	return flags;
}

/* Write the pending line, and let others print. */
static void console_unlock(int len, unsigned long flags)
{
	console_write(printk_buf, len);
	spin_unlock_irqrestore(&console_sem, flags);
}

static int vprintk_emit(const char *fmt, __builtin_va_list args)
{
	unsigned long flags = console_lock();
	int len;

	len = vsnprintf(printk_buf, sizeof(printk_buf), fmt, args);
	len = min(len, LOG_LINE_MAX - 1);
	console_unlock(len, flags);
	return len;
}

int printk(const char *fmt, ...)
{
	__builtin_va_list args;
	int len;

	__builtin_va_start(args, fmt);
	len = vprintk_emit(fmt, args);
	__builtin_va_end(args);
	return len;
}
EXPORT_SYMBOL(printk);

void panic(const char *fmt, ...)
{
	static char buf[LOG_LINE_MAX];
	__builtin_va_list args;

	local_irq_disable();
	__builtin_va_start(args, fmt);
	vsnprintf(buf, sizeof(buf), fmt, args);
	__builtin_va_end(args);
	for (;;)
		machine_call(HC_PANIC, ADDR(buf), strlen(buf), 0, 0);
}
EXPORT_SYMBOL(panic);
