// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Several users of one call: checks the filters of each user on every call. Modelled
 * on arch_ftrace_ops_list_func() and ftrace_ops_test() in
 * kernel/trace/ftrace.c.
 */
#include "tracer.h"

struct ftrace_ops_entry ftrace_ops_list[FTRACE_OPS_MAX];
volatile u32 ftrace_ops_count;

int ftrace_lookup_ip(u64 array, u64 count, unsigned long ip)
{
	const u64 *ips = (const u64 *)(unsigned long)array;
	unsigned long low = 0, high = count;

	while (low < high) {
		unsigned long mid = low + (high - low) / 2;

		if (ips[mid] == ip)
			return 1;
		if (ips[mid] < ip)
			low = mid + 1;
		else
			high = mid;
	}
	return 0;
}

int ftrace_ops_test(const struct ftrace_ops_entry *ops, unsigned long ip)
{
	return (!ops->filter_count || ftrace_lookup_ip(ops->filter, ops->filter_count, ip)) &&
	       (!ops->notrace_count || !ftrace_lookup_ip(ops->notrace, ops->notrace_count, ip));
}

/*
 * The interrupt state is unchanged, so that each user sees it; this function uses no
 * per-CPU data.
 */
void ftrace_ops_list_func(unsigned long ip, unsigned long parent_ip, void *op,
			  struct pt_regs *regs)
{
	for (u32 i = 0; i < ftrace_ops_count && i < FTRACE_OPS_MAX; i++) {
		const struct ftrace_ops_entry *ops = &ftrace_ops_list[i];

		if (ops->func && ftrace_ops_test(ops, ip))
			((ftrace_func_t)(unsigned long)ops->func)(
				ip, parent_ip, (void *)(unsigned long)ops->op, regs);
	}
}
