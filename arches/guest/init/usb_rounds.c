// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The workload `usb` for ports with several builds of usbcore: each build registers
 * a round, and a round of the workload runs them all.
 */
#include "module.h"
#include "workload.h"

static long (*usb_rounds[4])(unsigned long n);

static void usb_replace_round(long (*old)(unsigned long n), long (*new)(unsigned long n))
{
	for (unsigned int i = 0; i < ARRAY_SIZE(usb_rounds); i++)
		if (usb_rounds[i] == old) {
			WRITE_ONCE(usb_rounds[i], new);
			return;
		}
}

void usb_register_workload(long (*round)(unsigned long n))
{
	usb_replace_round(NULL, round);
}
EXPORT_SYMBOL(usb_register_workload);

void usb_unregister_workload(long (*round)(unsigned long n))
{
	usb_replace_round(round, NULL);
}
EXPORT_SYMBOL(usb_unregister_workload);

long usb_round(unsigned long n)
{
	long err = -ENODEV;

	for (unsigned int i = 0; i < ARRAY_SIZE(usb_rounds); i++) {
		long (*round)(unsigned long) = READ_ONCE(usb_rounds[i]);

		if (!round)
			continue;
		err = round(n);
		if (err < 0)
			break;
	}
	return err;
}
