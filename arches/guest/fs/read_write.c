// SPDX-License-Identifier: GPL-2.0-or-later
/* read and write for all types of files. Modelled on fs/{read_write,readdir}.c. */
#include "fs.h"
#include "sched.h"

#define MAX_RW_COUNT (INODE_PAGES * PAGE_SIZE)

static int rw_verify_area(struct file *file, const loff_t *pos, size_t count)
{
	if (*pos < 0)
		return -EINVAL;
	return count > MAX_RW_COUNT ? -EINVAL : 0;
}

ssize_t vfs_read(struct file *file, char *buf, size_t count, loff_t *pos)
{
	int err;

	if ((file->f_flags & O_ACCMODE) == O_WRONLY)
		return -EBADF;
	if (!file->f_op->read)
		return -EINVAL;
	err = rw_verify_area(file, pos, count);
	return err ? err : file->f_op->read(file, buf, count, pos);
}

ssize_t vfs_write(struct file *file, const char *buf, size_t count, loff_t *pos)
{
	int err;

	if ((file->f_flags & O_ACCMODE) == O_RDONLY)
		return -EBADF;
	if (!file->f_op->write)
		return -EINVAL;
	err = rw_verify_area(file, pos, count);
	return err ? err : file->f_op->write(file, buf, count, pos);
}

ssize_t kernel_read(struct file *file, void *buf, size_t count, loff_t *pos)
{
	return vfs_read(file, buf, count, pos);
}

static struct file *fdget_pos(unsigned int fd)
{
	struct file *file = fget(fd);

	if (file)
		mutex_lock(&file->f_pos_lock);
	return file;
}

static void fdput_pos(struct file *file)
{
	mutex_unlock(&file->f_pos_lock);
	fput(file);
}

ssize_t ksys_read(unsigned int fd, char *buf, size_t count)
{
	struct file *file = fdget_pos(fd);
	ssize_t ret;

	if (!file)
		return -EBADF;
	ret = vfs_read(file, buf, count, &file->f_pos);
	fdput_pos(file);
	return ret;
}

ssize_t ksys_write(unsigned int fd, const char *buf, size_t count)
{
	struct file *file = fdget_pos(fd);
	ssize_t ret;

	if (!file)
		return -EBADF;
	ret = vfs_write(file, buf, count, &file->f_pos);
	fdput_pos(file);
	return ret;
}

loff_t vfs_llseek(struct file *file, loff_t offset)
{
	if (offset < 0)
		return -EINVAL;
	file->f_pos = offset;
	return offset;
}

int iterate_dir(struct file *file, char *buf, size_t count)
{
	int ret;

	if (!file->f_op->iterate)
		return -ENOTDIR;
	down_read(&file->f_inode->i_rwsem);
	ret = file->f_op->iterate(file, buf, count);
	up_read(&file->f_inode->i_rwsem);
	return ret;
}
