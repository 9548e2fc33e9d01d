// SPDX-License-Identifier: GPL-2.0-or-later
/* open, close and stat. Modelled on fs/{open,stat}.c. */
#include "fs.h"
#include "sched.h"

static struct kmem_cache *names_cachep;

static char *getname(const char *path)
{
	char *name = kmem_cache_alloc(names_cachep, GFP_KERNEL);

	if (!name)
		return ERR_PTR(-ENOMEM);
	if (strscpy(name, path, PATH_MAX) < 0) {
		kmem_cache_free(names_cachep, name);
		return ERR_PTR(-ENAMETOOLONG);
	}
	return name;
}

static void putname(char *name)
{
	kmem_cache_free(names_cachep, name);
}

static int do_dentry_open(struct file *file, struct inode *inode)
{
	file->f_inode = inode;
	file->f_op = inode->i_fop;
	return file->f_op->open ? file->f_op->open(inode, file) : 0;
}

int vfs_open(struct dentry *dentry, struct file *file)
{
	int err;

	file->f_dentry = dget(dentry);
	err = do_dentry_open(file, dentry->d_inode);
	if (err)
		file->f_op = NULL; /* nothing to release */
	return err;
}

int do_sys_openat2(const char *path, unsigned int flags)
{
	char *name = getname(path);
	struct file *file;
	int fd;

	if (IS_ERR(name))
		return PTR_ERR(name);
	fd = get_unused_fd_flags();
	if (fd >= 0) {
		file = do_filp_open(name, flags);
		if (IS_ERR(file)) {
			put_unused_fd(fd);
			fd = PTR_ERR(file);
		} else {
			fd_install(fd, file);
		}
	}
	putname(name);
	return fd;
}

static void set_fs_pwd(struct fs_struct *fs, struct dentry *dentry)
{
	struct dentry *old = fs->pwd;

	fs->pwd = dentry;
	dput(old);
}

int ksys_chdir(const char *path)
{
	struct dentry *dentry = kern_path(path);

	if (IS_ERR(dentry))
		return PTR_ERR(dentry);
	if (!S_ISDIR(dentry->d_inode->i_mode)) {
		dput(dentry);
		return -ENOTDIR;
	}
	set_fs_pwd(current->fs, dentry);
	return 0;
}

int filp_close(struct file *file)
{
	fput(file);
	return 0;
}

static int vfs_getattr(struct dentry *dentry, struct kstat *stat)
{
	struct inode *inode = dentry->d_inode;

	stat->ino = inode->i_ino;
	stat->size = inode->i_size;
	stat->mode = inode->i_mode;
	stat->nlink = inode->i_nlink;
	stat->mtime = inode->i_mtime;
	return 0;
}

int vfs_stat(const char *path, struct kstat *stat)
{
	struct dentry *dentry = kern_path(path);
	int err;

	if (IS_ERR(dentry))
		return PTR_ERR(dentry);
	err = vfs_getattr(dentry, stat);
	dput(dentry);
	return err;
}

void names_init(void)
{
	names_cachep = kmem_cache_create("names_cache", PATH_MAX);
}
