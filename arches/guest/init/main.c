// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * From the first C function to the first process. Modelled on init/main.c.
 * CPU 0 does not sleep before the last line of kernel_init() (see
 * sched/idle.c), so its first HC_IDLE means that boot is complete.
 */
#include "exec.h"
#include "irq.h"
#include "sched.h"
#include "stop_machine.h"
#include "syscall.h"

extern char init_stack[]; /* switch.S */

volatile int system_state;

int console_init(void);

static struct delayed_work vmstat_work;

static void vmstat_update(struct work_struct *work)
{
	schedule_delayed_work(&vmstat_work, 20);
}

static void check_hung_task(struct task_struct *p)
{
	if (p->state == TASK_UNINTERRUPTIBLE && time_after(jiffies, p->start_time + 120 * HZ))
		printk("INFO: task %s:%d is in state D", p->comm, p->pid);
}

static void check_hung_uninterruptible_tasks(void)
{
	struct task_struct *p;

	spin_lock(&tasklist_lock);
	list_for_each_entry(p, &init_task.tasks, tasks)
		if (p->pid > 2 && p->nvcsw + p->nivcsw == 0)
			check_hung_task(p);
	spin_unlock(&tasklist_lock);
}

static int watchdog(void *unused)
{
	for (;;) {
		schedule_timeout_interruptible(250);
		check_hung_uninterruptible_tasks();
	}
	return 0;
}

static void populate_rootfs(void)
{
	static const char *const dirs[] = { "/bin", "/dev", "/mnt", "/proc", "/sbin", "/sys",
					    "/sys/kernel", "/sys/kernel/tracing", "/tmp" };
	const struct user_program *prog;
	char image[BINPRM_BUF_SIZE];

	for (unsigned int i = 0; i < ARRAY_SIZE(dirs); i++)
		do_mkdirat(dirs[i]);
	for (prog = user_programs; prog->path; prog++) {
		struct file *file = do_filp_open(prog->path, O_CREAT | O_WRONLY);
		loff_t pos = 0;

		if (IS_ERR(file))
			panic("cannot create %s", prog->path);
		vfs_write(file, image, snprintf(image, sizeof(image), "\177ELF%s", prog->name) + 1,
			  &pos);
		fput(file);
	}
}

static void mount_root(void)
{
	struct dentry *root;

	init_ramfs_fs();
	root = kern_mount("ramfs");
	if (IS_ERR(root))
		panic("VFS: Unable to mount root fs");
	current->fs->root = dget(root);
	current->fs->pwd = root;
	populate_rootfs();
}

static void do_initcalls(void)
{
	mount_root();
	if (do_mount("proc", "/proc") || console_init())
		panic("no /proc or /dev/console");
	kswapd_init(); start_ftraced();
	ftrace_update_init();
	kthread_run(watchdog, NULL, "khungtaskd");
	INIT_DELAYED_WORK(&vmstat_work, vmstat_update);
	schedule_delayed_work(&vmstat_work, 20);
}

static void kernel_init_freeable(void)
{
	system_state = SYSTEM_SCHEDULING;
	smp_init();
	rcu_spawn_gp_kthread();
	spawn_ksoftirqd();
	cpu_stop_init();
	workqueue_init();
	do_initcalls();
}

static int run_init_process(const char *path)
{
	printk("Run %s as init process", path);
	return kernel_execve(path);
}

static int kernel_init(void *unused)
{
	wait_event_interruptible(&init_task.wait_chldexit, kthreadd_task);
	child_reaper = current;
	kernel_init_freeable();
	if (run_init_process("/sbin/init"))
		panic("No working init found.");
	WRITE_ONCE(system_state, SYSTEM_RUNNING);
	syscall(exit, current->mm->entry(), 0, 0);
	return 0;
}

static void rest_init(void)
{
	int pid = kernel_thread(kernel_init, NULL, 0);

	if (pid < 0)
		panic("no init: %d", pid);
	pid = kernel_thread(kthreadd, NULL, 0);
	kthreadd_task = find_task_by_vpid(pid);
	wake_up(&init_task.wait_chldexit);
	this_cpu->need_resched = 1;
	cpu_startup_entry();
}

static void setup_arch(void)
{
	init_task.stack = init_stack;
	*(unsigned long *)init_stack = STACK_END_MAGIC;
	this_cpu->current_task = ADDR(&init_task);
	this_cpu->ret_stack = ADDR(&init_task.ret_stack);
	this_cpu->pid = 0;
	this_cpu->need_resched = 0;
	nmi_init();
}

static void mm_init(void)
{
	mem_init();
	kmem_cache_init();
}

void mmap_init(void);

/*
 * All call sites have called mcount since the first instruction. Here the machine disables
 * them. If they are found as they run, ftraced has an init function of its own instead
 * (ftrace/ftraced.c).
 */
#ifndef CONFIG_FTRACED
notrace void ftrace_init(void)
{
	hypercall(HC_FTRACE_INIT, 0, 0, 0, 0);
}
#else
static inline void ftrace_init(void) {}
#endif

void start_kernel(void)
{
	this_cpu->irqs_disabled = 1;
	this_cpu->preempt_count = 1; /* until the idle loop */
	setup_arch();
	printk("Linux version %s (%s) %u CPUs", UTS_RELEASE, UTS_MACHINE, this_cpu->nr_cpus);
	mm_init();
	ftrace_init();
	softirq_init();
	sched_init();
	rcu_init();
	init_IRQ();
	init_timers();
	timekeeping_init();
	time_init();
	local_irq_enable();
	fork_init();
	mmap_init();
	vfs_caches_init();
	init_task.fs = copy_fs_struct(NULL);
	proc_root_init();
	rest_init();
}
