// SPDX-License-Identifier: GPL-2.0-or-later
/* A device that interrupts continuously: handler, tasklet, waiting task. The
 * workload `irqstorm`. */
#include "irq.h"
#include "sched.h"
#include "workload.h"

static struct {
	volatile unsigned int raised, handled;
	struct tasklet_struct tasklet;
	wait_queue_head_t wait;
} storm;

static int storm_interrupt(int irq, void *dev)
{
	storm.raised++;
	tasklet_schedule(&storm.tasklet);
	return IRQ_HANDLED;
}

static void storm_tasklet(unsigned long data)
{
	storm.handled = storm.raised;
	wake_up(&storm.wait);
}

static void storm_raise(void)
{
	machine_call(HC_SEND_IPI, smp_processor_id(), VECTOR_DEVICE, 0, 0);
}

static int storm_probe(void)
{
	int err;

	tasklet_init(&storm.tasklet, storm_tasklet, 0);
	init_waitqueue_head(&storm.wait);
	storm.raised = storm.handled = 0;
	err = request_irq(VECTOR_DEVICE, storm_interrupt, "storm", &storm);
	return err;
}

long irq_storm(unsigned int count)
{
	int err = storm_probe();

	if (err)
		return err;
	for (unsigned int n = 1; n <= count; n++) {
		storm_raise();
		wait_event(&storm.wait, storm.handled >= n);
	}
	free_irq(VECTOR_DEVICE);
	return 0;
}
