// SPDX-License-Identifier: GPL-2.0-or-later
/* Open files and their descriptors. Modelled on fs/{file,file_table,fs_struct}.c. */
#include "fs.h"
#include "sched.h"

void names_init(void);

static struct kmem_cache *filp_cachep, *files_cachep, *fs_cachep;

#define FD_RESERVED ((struct file *)1)

struct file *alloc_empty_file(unsigned int flags)
{
	struct file *file = kmem_cache_alloc(filp_cachep, GFP_KERNEL | __GFP_ZERO);

	if (!file)
		return NULL;
	file->f_count = 1;
	file->f_flags = flags;
	mutex_init(&file->f_pos_lock);
	return file;
}

static void file_free(struct file *file)
{
	kmem_cache_free(filp_cachep, file);
}

static void __fput(struct file *file)
{
	if (file->f_op && file->f_op->release)
		file->f_op->release(file->f_inode, file);
	if (file->f_dentry)
		dput(file->f_dentry);
	file_free(file);
}

void fput(struct file *file)
{
	if (!__atomic_sub_fetch(&file->f_count, 1, __ATOMIC_ACQ_REL))
		__fput(file);
}

static int alloc_fd(struct files_struct *files)
{
	int fd;

	spin_lock(&files->file_lock);
	for (fd = 0; fd < NR_OPEN; fd++)
		if (!files->fd[fd])
			break;
	if (fd < NR_OPEN)
		files->fd[fd] = FD_RESERVED;
	spin_unlock(&files->file_lock);
	return fd < NR_OPEN ? fd : -EMFILE;
}

int get_unused_fd_flags(void)
{
	return current->files ? alloc_fd(current->files) : -EMFILE;
}

void put_unused_fd(unsigned int fd)
{
	struct files_struct *files = current->files;

	spin_lock(&files->file_lock);
	files->fd[fd] = NULL;
	spin_unlock(&files->file_lock);
}

void fd_install(unsigned int fd, struct file *file)
{
	WRITE_ONCE(current->files->fd[fd], file);
}

/* Return the open file with a reference for the caller. */
struct file *fget(unsigned int fd)
{
	struct files_struct *files = current->files;
	struct file *file = NULL;

	if (!files || fd >= NR_OPEN)
		return NULL;
	spin_lock(&files->file_lock);
	if (files->fd[fd] != FD_RESERVED)
		file = files->fd[fd];
	if (file)
		__atomic_add_fetch(&file->f_count, 1, __ATOMIC_RELAXED);
	spin_unlock(&files->file_lock);
	return file;
}

static struct file *pick_file(struct files_struct *files, unsigned int fd)
{
	struct file *file = NULL;

	spin_lock(&files->file_lock);
	if (fd < NR_OPEN && files->fd[fd] != FD_RESERVED) {
		file = files->fd[fd];
		files->fd[fd] = NULL;
	}
	spin_unlock(&files->file_lock);
	return file;
}

int close_fd(unsigned int fd)
{
	struct file *file = current->files ? pick_file(current->files, fd) : NULL;

	return file ? filp_close(file) : -EBADF;
}

/* Copy the table for a child; both then refer to the same open files. */
struct files_struct *dup_fd(struct files_struct *old)
{
	struct files_struct *new = kmem_cache_alloc(files_cachep, GFP_KERNEL | __GFP_ZERO);

	if (!new)
		return NULL;
	new->count = 1;
	spin_lock_init(&new->file_lock);
	if (!old)
		return new;
	spin_lock(&old->file_lock);
	for (int fd = 0; fd < NR_OPEN; fd++)
		if (old->fd[fd] && old->fd[fd] != FD_RESERVED) {
			new->fd[fd] = old->fd[fd];
			__atomic_add_fetch(&new->fd[fd]->f_count, 1, __ATOMIC_RELAXED);
		}
	spin_unlock(&old->file_lock);
	return new;
}

static void close_files(struct files_struct *files)
{
	for (int fd = 0; fd < NR_OPEN; fd++)
		if (files->fd[fd] && files->fd[fd] != FD_RESERVED)
			filp_close(files->fd[fd]);
}

static void put_files_struct(struct files_struct *files)
{
	if (__atomic_sub_fetch(&files->count, 1, __ATOMIC_ACQ_REL))
		return;
	close_files(files);
	kmem_cache_free(files_cachep, files);
}

void exit_files(struct task_struct *p)
{
	struct files_struct *files = p->files;

	p->files = NULL;
	if (files)
		put_files_struct(files);
}

struct fs_struct *copy_fs_struct(struct fs_struct *old)
{
	struct fs_struct *fs = kmem_cache_alloc(fs_cachep, GFP_KERNEL | __GFP_ZERO);

	if (fs && old && old->root) {
		fs->root = dget(old->root);
		fs->pwd = dget(old->pwd);
	}
	return fs;
}

static void free_fs_struct(struct fs_struct *fs)
{
	if (fs->root) {
		dput(fs->root);
		dput(fs->pwd);
	}
	kmem_cache_free(fs_cachep, fs);
}

void exit_fs(struct task_struct *p)
{
	struct fs_struct *fs = p->fs;

	p->fs = NULL;
	if (fs)
		free_fs_struct(fs);
}

void files_init(void)
{
	filp_cachep = kmem_cache_create("filp", sizeof(struct file));
	files_cachep = kmem_cache_create("files_cache", sizeof(struct files_struct));
	fs_cachep = kmem_cache_create("fs_cache", sizeof(struct fs_struct));
	names_init();
}
