// SPDX-License-Identifier: GPL-2.0-or-later
/* Pipes. Modelled on fs/pipe.c. */
#include "fs.h"
#include "sched.h"

#define PIPE_SIZE 512

struct pipe_inode_info {
	struct mutex mutex;
	wait_queue_head_t rd_wait, wr_wait;
	unsigned int head, tail; /* total bytes written and read */
	int readers, writers;
	char buf[PIPE_SIZE];
};

static inline int pipe_empty(struct pipe_inode_info *pipe)
{
	return READ_ONCE(pipe->head) == READ_ONCE(pipe->tail);
}

static inline int pipe_full(struct pipe_inode_info *pipe)
{
	return READ_ONCE(pipe->head) - READ_ONCE(pipe->tail) == PIPE_SIZE;
}

static int pipe_readable(struct pipe_inode_info *pipe)
{
	return !pipe_empty(pipe) || !READ_ONCE(pipe->writers);
}

static int pipe_writable(struct pipe_inode_info *pipe)
{
	return !pipe_full(pipe) || !READ_ONCE(pipe->readers);
}

static ssize_t pipe_read(struct file *file, char *buf, size_t count, loff_t *pos)
{
	struct pipe_inode_info *pipe = file->private_data;
	size_t done = 0;

	mutex_lock(&pipe->mutex);
	while (pipe_empty(pipe) && pipe->writers) {
		mutex_unlock(&pipe->mutex);
		wait_event_interruptible(&pipe->rd_wait, pipe_readable(pipe));
		mutex_lock(&pipe->mutex);
	}
	while (done < count && !pipe_empty(pipe))
		buf[done++] = pipe->buf[pipe->tail++ % PIPE_SIZE];
	mutex_unlock(&pipe->mutex);
	wake_up(&pipe->wr_wait);
	return done;
}

static ssize_t pipe_write(struct file *file, const char *buf, size_t count, loff_t *pos)
{
	struct pipe_inode_info *pipe = file->private_data;
	size_t done = 0;

	mutex_lock(&pipe->mutex);
	while (done < count) {
		if (!pipe->readers) {
			mutex_unlock(&pipe->mutex);
			return done ? (ssize_t)done : -EPIPE;
		}
		if (pipe_full(pipe)) {
			mutex_unlock(&pipe->mutex);
			wake_up(&pipe->rd_wait);
			wait_event_interruptible(&pipe->wr_wait, pipe_writable(pipe));
			mutex_lock(&pipe->mutex);
			continue;
		}
		pipe->buf[pipe->head++ % PIPE_SIZE] = buf[done++];
	}
	mutex_unlock(&pipe->mutex);
	wake_up(&pipe->rd_wait);
	return done;
}

static void free_pipe_info(struct pipe_inode_info *pipe)
{
	kfree(pipe);
}

static int pipe_release(struct inode *inode, struct file *file)
{
	struct pipe_inode_info *pipe = file->private_data;
	int last;

	mutex_lock(&pipe->mutex);
	if ((file->f_flags & O_ACCMODE) == O_WRONLY)
		pipe->writers--;
	else
		pipe->readers--;
	last = !pipe->readers && !pipe->writers;
	if (!last) {
		wake_up_all(&pipe->rd_wait);
		wake_up_all(&pipe->wr_wait);
	}
	mutex_unlock(&pipe->mutex);
	if (last)
		free_pipe_info(pipe);
	return 0;
}

static const struct file_operations pipefifo_fops = {
	.read = pipe_read,
	.write = pipe_write,
	.release = pipe_release,
};

static struct pipe_inode_info *alloc_pipe_info(void)
{
	struct pipe_inode_info *pipe = kzalloc(sizeof(*pipe), GFP_KERNEL);

	if (!pipe)
		return NULL;
	mutex_init(&pipe->mutex);
	init_waitqueue_head(&pipe->rd_wait);
	init_waitqueue_head(&pipe->wr_wait);
	return pipe;
}

static struct file *create_pipe_file(struct pipe_inode_info *pipe, unsigned int flags)
{
	struct file *file = alloc_empty_file(flags);

	if (file) {
		file->f_op = &pipefifo_fops;
		file->private_data = pipe;
		if (flags == O_WRONLY)
			pipe->writers++;
		else
			pipe->readers++;
	}
	return file;
}

static int create_pipe_files(struct file **files)
{
	struct pipe_inode_info *pipe = alloc_pipe_info();

	if (!pipe)
		return -ENOMEM;
	files[0] = create_pipe_file(pipe, O_RDONLY);
	files[1] = create_pipe_file(pipe, O_WRONLY);
	if (files[0] && files[1])
		return 0;
	if (files[0])
		fput(files[0]); /* the last end to close frees the pipe */
	else if (files[1])
		fput(files[1]);
	else
		free_pipe_info(pipe);
	return -ENFILE;
}

int do_pipe2(int fd[2])
{
	struct file *files[2];
	int err = create_pipe_files(files);

	if (err)
		return err;
	fd[0] = get_unused_fd_flags();
	fd[1] = get_unused_fd_flags();
	if (fd[0] < 0 || fd[1] < 0) {
		if (fd[0] >= 0)
			put_unused_fd(fd[0]);
		fput(files[0]);
		fput(files[1]);
		return -EMFILE;
	}
	fd_install(fd[0], files[0]);
	fd_install(fd[1], files[1]);
	return 0;
}
