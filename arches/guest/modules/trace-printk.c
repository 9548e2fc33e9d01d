// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The four ways of trace_printk() to write a message, in a task and in an interrupt. Does what
 * samples/trace_printk of Linux does: with and without arguments, constant or not.
 */
#include "trace_printk.h"
#include "irq.h"
#include "module.h"

/* Not constants to the compiler: the kernel copies these texts into the event. */
static const char *volatile dynamic_text = "This is a dynamic string that will use trace_puts\n";
static const char *volatile dynamic_format = "This is a %s that will use trace_printk\n";
static const char *volatile dynamic_irq_text =
	"(irq) This is a dynamic string that will use trace_puts\n";
static const char *volatile dynamic_irq_format = "(irq) This is a %s that will use trace_printk\n";

static struct irq_work irqwork;

#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"

static void trace_printk_irq_work(struct irq_work *work)
{
	trace_printk("(irq) This is a static string that will use trace_bputs\n");
	trace_printk(dynamic_irq_text);
	trace_printk("(irq) This is a %s that will use trace_bprintk\n", "static string");
	trace_printk(dynamic_irq_format, "dynamic string");
}

static int trace_printk_init(void)
{
	init_irq_work(&irqwork, trace_printk_irq_work);
	trace_printk("This is a static string that will use trace_bputs\n");
	trace_printk(dynamic_text);
	irq_work_queue(&irqwork);
	trace_printk("This is a %s that will use trace_bprintk\n", "static string");
	trace_printk(dynamic_format, "dynamic string");
	return 0;
}

static void trace_printk_exit(void)
{
	irq_work_sync(&irqwork);
}

MODULE_LICENSE("GPL");
DEFINE_MODULE("trace_printk", "", trace_printk_init, trace_printk_exit);
