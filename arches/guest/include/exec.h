/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Programs and their address spaces. Modelled on linux/{binfmts,mm_types}.h. */
#ifndef EXEC_H
#define EXEC_H

#include "fs.h"

struct vm_area_struct {
	unsigned long start, end;
	struct list_head list;
};

struct mm_struct {
	int users;
	struct rw_semaphore mmap_lock;
	struct list_head mmap;
	int (*entry)(void); /* entry point of the program */
};

#define BINPRM_BUF_SIZE 64

struct linux_binprm {
	struct file *file;
	struct mm_struct *mm;
	const char *filename;
	char buf[BINPRM_BUF_SIZE]; /* first bytes of the file */
};

/* A program is a function of this image; its file contains the ELF magic and its name. */
struct user_program {
	const char *path;
	const char *name;
	int (*main)(void);
};

extern const struct user_program user_programs[]; /* init/user.c; ends with a path of NULL */

int do_execve(const char *filename);
int vm_mmap(struct mm_struct *mm, unsigned long start, unsigned long len);
void mmap_init(void);

#endif
