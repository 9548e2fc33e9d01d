// SPDX-License-Identifier: GPL-2.0-or-later
/* Files whose text is generated on read. Modelled on fs/seq_file.c. */
#include "fs.h"

#define SEQ_SIZE 1024

void seq_printf(struct seq_file *m, const char *fmt, ...)
{
	__builtin_va_list args;
	size_t n;

	if (m->count >= m->size)
		return;
	__builtin_va_start(args, fmt);
	n = vsnprintf(m->buf + m->count, m->size - m->count, fmt, args);
	__builtin_va_end(args);
	m->count = min(m->count + n, m->size - 1);
}

int single_open(struct file *file, int (*show)(struct seq_file *), void *data)
{
	struct seq_file *m = kzalloc(sizeof(*m), GFP_KERNEL);

	if (!m)
		return -ENOMEM;
	m->show = show;
	m->private = data;
	file->private_data = m;
	return 0;
}

/* The first read generates the text; later reads use the same text. */
ssize_t seq_read(struct file *file, char *buf, size_t size, loff_t *pos)
{
	struct seq_file *m = file->private_data;
	unsigned long at = *pos;
	size_t n;

	if (!m->buf) {
		m->buf = kmalloc(SEQ_SIZE, GFP_KERNEL);
		if (!m->buf)
			return -ENOMEM;
		m->size = SEQ_SIZE;
		m->show(m);
	}
	if (at >= m->count)
		return 0;
	n = min(size, m->count - at);
	memcpy(buf, m->buf + at, n);
	*pos += n;
	return n;
}

int single_release(struct inode *inode, struct file *file)
{
	struct seq_file *m = file->private_data;

	kfree(m->buf);
	kfree(m);
	return 0;
}
