// SPDX-License-Identifier: GPL-2.0-or-later
/* The files of /proc. Modelled on fs/proc/{uptime,loadavg,meminfo,stat,version}.c
 * and drivers/tty/sysrq.c. */
#include "fs.h"
#include "irq.h"
#include "sched.h"

static int uptime_proc_show(struct seq_file *m)
{
	unsigned long t = jiffies;

	seq_printf(m, "%lu.%02lu\n", t / HZ, t % HZ / 10);
	return 0;
}

static int loadavg_proc_show(struct seq_file *m)
{
	seq_printf(m, "%lu.%02lu %lu/%d\n", avenrun >> 11, ((avenrun & 2047) * 100) >> 11,
		   nr_running(), nr_threads);
	return 0;
}

static int meminfo_proc_show(struct seq_file *m)
{
	seq_printf(m, "MemTotal: %8lu kB\nMemFree:  %8lu kB\nSlab:     %8lu objects\n",
		   totalram_pages() << 2, nr_free_pages() << 2, slab_objects());
	return 0;
}

static int stat_proc_show(struct seq_file *m)
{
	seq_printf(m, "ctxt %lu\nprocesses %lu\nprocs_running %lu\nintr", nr_context_switches(),
		   total_forks, nr_running());
	for (int irq = 0; irq < NR_VECTORS; irq++)
		seq_printf(m, " %lu", kstat_irqs(irq));
	seq_printf(m, "\n");
	return 0;
}

/* Kept as in the kernel, so that a probe can read them as strings. */
const char linux_proc_banner[] = "%s version %s (" UTS_MACHINE ") (gcc " __VERSION__ ") %s\n";
const char linux_version[] = "#1 SMP PREEMPT";

static int version_proc_show(struct seq_file *m)
{
	seq_printf(m, linux_proc_banner, "Linux", UTS_RELEASE, linux_version);
	return 0;
}

static unsigned long sysrq_count;

static void __handle_sysrq(char key)
{
	sysrq_count++;
	if (key == 'h')
		printk("sysrq: HELP : show-task-states(t) show-memory-usage(m)");
	else if (key == 'm')
		printk("sysrq: %lu kB free", nr_free_pages() << 2);
	else if (key == 't')
		printk("sysrq: %d tasks, %lu running", nr_threads, nr_running());
}

static ssize_t write_sysrq_trigger(struct file *file, const char *buf, size_t count)
{
	if (count)
		__handle_sysrq(buf[0]);
	return count;
}

static ssize_t comm_write(struct file *file, const char *buf, size_t count)
{
	char name[TASK_COMM_LEN];

	memset(name, 0, sizeof(name));
	memcpy(name, buf, min(count, sizeof(name) - 1));
	__set_task_comm(current, name);
	return count;
}

static int comm_show(struct seq_file *m)
{
	seq_printf(m, "%s\n", current->comm);
	return 0;
}

static const struct {
	const char *name;
	struct proc_ops ops;
} proc_files[] = {
	{ "uptime", { .proc_show = uptime_proc_show } },
	{ "loadavg", { .proc_show = loadavg_proc_show } },
	{ "meminfo", { .proc_show = meminfo_proc_show } },
	{ "stat", { .proc_show = stat_proc_show } },
	{ "interrupts", { .proc_show = show_interrupts } },
	{ "slabinfo", { .proc_show = slab_show } },
	{ "version", { .proc_show = version_proc_show } },
	{ "comm", { .proc_show = comm_show, .proc_write = comm_write } },
	{ "sysrq-trigger", { .proc_write = write_sysrq_trigger } },
};

void proc_register_files(void)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(proc_files); i++)
		proc_create(proc_files[i].name, &proc_files[i].ops);
}
