/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The workloads the console can run. The kernel's symbol `workloads` is an
 * array of struct workload, ended by an empty name.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include "kernel.h"

struct workload {
	char name[16];
	long (*round)(unsigned long n); /* 0, or -errno to end */
};

extern struct workload workloads[];

long run_workload(const char *name, unsigned long count);

/* A module brings a round of the workload `usb`, and takes it back. */
void usb_register_workload(long (*round)(unsigned long n));

/* drivers/: the parts of workloads that are kernel code */
long irq_storm(unsigned int count);
long lock_torture(unsigned int loops);
long timer_torture(unsigned int count);

/* One module has a round, or on the ports with several builds of usbcore, each of them. */
#ifdef USB_FLAVOURS
void usb_unregister_workload(long (*round)(unsigned long n));
long usb_round(unsigned long n);
#else
#define usb_unregister_workload(round) usb_register_workload(NULL)
#endif

#endif
