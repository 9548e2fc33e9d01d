/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The workloads that the console can run. The kernel's symbol `workloads` is an
 * array of struct workload that ends with an empty name.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include "kernel.h"

struct workload {
	char name[16];
	long (*round)(unsigned long n); /* 0, or -errno to stop */
};

extern struct workload workloads[];

long run_workload(const char *name, unsigned long count);

/* A module registers a round of the workload `usb`, and unregisters it. */
void usb_register_workload(long (*round)(unsigned long n));

/* drivers/: parts of workloads that are kernel code */
long irq_storm(unsigned int count);
long lock_torture(unsigned int loops);
long timer_torture(unsigned int count);

/* One module has a round, or each build of usbcore on ports that have several. */
#ifdef USB_FLAVOURS
void usb_unregister_workload(long (*round)(unsigned long n));
long usb_round(unsigned long n);
#else
#define usb_unregister_workload(round) usb_register_workload(NULL)
#endif

#endif
