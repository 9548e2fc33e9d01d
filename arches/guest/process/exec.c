// SPDX-License-Identifier: GPL-2.0-or-later
/* Running another program in a task. Modelled on fs/exec.c and fs/binfmt_elf.c. */
#include "events.h"
#include "exec.h"
#include "sched.h"

#define ELFMAG "\177ELF"

static struct file *do_open_execat(const char *filename)
{
	return do_filp_open(filename, O_RDONLY);
}

static struct linux_binprm *alloc_bprm(const char *filename)
{
	struct linux_binprm *bprm = kzalloc(sizeof(*bprm), GFP_KERNEL);

	if (!bprm)
		return ERR_PTR(-ENOMEM);
	bprm->filename = filename;
	bprm->mm = mm_alloc();
	if (!bprm->mm) {
		kfree(bprm);
		return ERR_PTR(-ENOMEM);
	}
	return bprm;
}

static void free_bprm(struct linux_binprm *bprm)
{
	if (bprm->file)
		fput(bprm->file);
	if (bprm->mm)
		mmput(bprm->mm);
	kfree(bprm);
}

static int prepare_binprm(struct linux_binprm *bprm)
{
	loff_t pos = 0;
	ssize_t n = kernel_read(bprm->file, bprm->buf, sizeof(bprm->buf) - 1, &pos);

	return n < 0 ? n : 0;
}

/* Point of no return: the old program is gone. */
static void begin_new_exec(struct linux_binprm *bprm)
{
	const char *base = bprm->filename, *p;
	struct mm_struct *old = current->mm;

	for (p = base; *p; p++)
		if (*p == '/')
			base = p + 1;
	__set_task_comm(current, base);
	current->mm = bprm->mm;
	bprm->mm = NULL;
	current->flags &= ~PF_KTHREAD;
	if (old)
		mmput(old);
}

static void start_thread(struct mm_struct *mm, int (*entry)(void))
{
	mm->entry = entry;
}

static int load_elf_binary(struct linux_binprm *bprm)
{
	const struct user_program *prog;
	int err;

	if (strncmp(bprm->buf, ELFMAG, 4))
		return -ENOEXEC;
	for (prog = user_programs; prog->path; prog++)
		if (!strcmp(bprm->buf + 4, prog->name))
			break;
	if (!prog->path)
		return -ENOEXEC;
	err = vm_mmap(bprm->mm, 0x400000, 0x1000); /* text */
	if (!err)
		err = vm_mmap(bprm->mm, 0x600000, 0x1000); /* data */
	if (!err)
		err = vm_mmap(bprm->mm, 0x7fff0000, 0x2000); /* stack */
	if (err)
		return err;
	begin_new_exec(bprm);
	start_thread(current->mm, prog->main);
	return 0;
}

static int search_binary_handler(struct linux_binprm *bprm)
{
	int err = prepare_binprm(bprm);

	return err ? err : load_elf_binary(bprm);
}

static int exec_binprm(struct linux_binprm *bprm)
{
	int err = search_binary_handler(bprm);

	if (!err)
		event_sched_process_exec(bprm->filename, current);
	return err;
}

static int bprm_execve(struct linux_binprm *bprm)
{
	struct file *file = do_open_execat(bprm->filename);

	if (IS_ERR(file))
		return PTR_ERR(file);
	bprm->file = file;
	return exec_binprm(bprm);
}

static int do_execveat_common(const char *filename)
{
	struct linux_binprm *bprm = alloc_bprm(filename);
	int err;

	if (IS_ERR(bprm))
		return PTR_ERR(bprm);
	err = bprm_execve(bprm);
	free_bprm(bprm);
	return err;
}

/* 0: the caller continues at current->mm->entry. */
int do_execve(const char *filename)
{
	return do_execveat_common(filename);
}

/* For a kernel thread that becomes a user process. */
int kernel_execve(const char *filename)
{
	if (!current->files)
		current->files = dup_fd(NULL);
	return current->files ? do_execve(filename) : -ENOMEM;
}
