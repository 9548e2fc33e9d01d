// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * /dev/console: a read waits for a request of the machine (struct host_request
 * in machine.h) and returns it. Modelled on a tty driver.
 */
#include "fs.h"
#include "irq.h"
#include "sched.h"

struct host_request host_request;

static u32 request_taken; /* sequence number of the last request read */
static DECLARE_WAIT_QUEUE_HEAD(console_wait);

static int console_interrupt(int irq, void *dev)
{
	wake_up(&console_wait);
	return IRQ_HANDLED;
}

static int console_poll(void)
{
	return READ_ONCE(host_request.sequence) != READ_ONCE(request_taken);
}

static ssize_t console_read(struct file *file, char *buf, size_t count, loff_t *pos)
{
	if (count < sizeof(host_request))
		return -EINVAL;
	wait_event_interruptible(&console_wait, console_poll());
	memcpy(buf, &host_request, sizeof(host_request));
	request_taken = host_request.sequence;
	return sizeof(host_request);
}

static ssize_t console_write(struct file *file, const char *buf, size_t count, loff_t *pos)
{
	char line[80];
	size_t n = min(count, sizeof(line) - 1);

	memcpy(line, buf, n);
	line[n] = 0;
	printk("%s", line);
	return count;
}

static const struct file_operations console_fops = {
	.read = console_read,
	.write = console_write,
};

int console_init(void)
{
	int err = init_special_inode("/dev/console", &console_fops);

	return err ? err : request_irq(VECTOR_REQUEST, console_interrupt, "console", NULL);
}
