/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Stopping all CPUs, and calls on all CPUs. Modelled on linux/{stop_machine,smp}.h. */
#ifndef STOP_MACHINE_H
#define STOP_MACHINE_H

#include "machine.h"

typedef int (*cpu_stop_fn_t)(void *arg);

int stop_machine(cpu_stop_fn_t fn, void *data);
void cpu_stop_init(void);

/* process/smp.c */
void on_each_cpu(void (*func)(void *info), void *info);

/* process/text_poke.c */
#if defined(__x86_64__) || defined(__i386__)
#define CONFIG_X86
#endif
void text_poke_bp_batch(void);

/* ftrace/update.c: the console's part in a change of text */
extern volatile struct ftrace_update ftrace_update;
void ftrace_update_init(void);

#endif
