// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Writes text under breakpoints while all CPUs run. Modelled on arch/x86/kernel/alternative.c.
 * The machine writes; this file makes every CPU notice each step.
 */
#include "irq.h"
#include "sched.h"
#include "stop_machine.h"

#ifdef CONFIG_X86

static void do_sync_core(void *info)
{
	machine_call(HC_SYNC_CORE, 0, 0, 0, 0);
}

static void text_poke_sync(void)
{
	on_each_cpu(do_sync_core, NULL);
}

/* The user looks at the text between two steps. */
static void wait_for_console(u32 seen)
{
	set_current_state(TASK_INTERRUPTIBLE);
	if (ftrace_update.wakeups == seen)
		schedule_notrace();
	set_current_state(TASK_RUNNING);
}

void text_poke_bp_batch(void)
{
	for (;;) {
		u32 seen = ftrace_update.wakeups;
		long next = machine_call(HC_TEXT_POKE, 0, 0, 0, 0);

		if (next == TEXT_POKE_DONE)
			return;
		if (next == TEXT_POKE_SYNC)
			text_poke_sync();
		else
			wait_for_console(seen);
	}
}

#endif
