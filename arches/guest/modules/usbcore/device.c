// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A host controller without hardware: a tasklet answers requests from the device's
 * descriptors in memory, as an interrupt would. Modelled on
 * drivers/usb/gadget/udc/dummy_hcd.c.
 */
#include "usb.h"

static const u8 hub_config[] = {
	5, USB_DT_CONFIG, 5 + 6, 1, 1,
	6, USB_DT_INTERFACE, 0, 0, 1, USB_CLASS_HUB,
};

static const u8 storage_config[] = {
	5, USB_DT_CONFIG, 5 + 3 * 6, 2, 1,
	6, USB_DT_INTERFACE, 0, 0, 2, 8,
	6, USB_DT_INTERFACE, 0, 1, 4, 8,
	6, USB_DT_INTERFACE, 1, 0, 1, 3,
};

const struct usb_gadget usb_fake_hub = {
	.device = { sizeof(struct usb_device_descriptor), USB_DT_DEVICE, USB_CLASS_HUB, 64,
		    { 0x1d, 0x6b }, { 0x00, 0x02 }, 1, 1 },
	.config = hub_config,
	.product = "Fake hub",
};

const struct usb_gadget usb_fake_storage = {
	.device = { sizeof(struct usb_device_descriptor), USB_DT_DEVICE, 0, 64,
		    { 0x05, 0x25 }, { 0xa4, 0xa5 }, 1, 1 },
	.config = storage_config,
	.product = "Fake storage",
};

static struct {
	spinlock_t lock;
	struct list_head urbs;
	struct tasklet_struct tasklet;
	unsigned long transfers;
} hcd;

static int copy_descriptor(struct urb *urb, const void *from, int size)
{
	int n = min(size, (int)urb->length);

	memcpy(urb->buffer, from, n);
	return n;
}

static int handle_get_descriptor(struct urb *urb)
{
	const struct usb_gadget *gadget = urb->dev->gadget;

	switch (urb->value >> 8) {
	case USB_DT_DEVICE:
		return copy_descriptor(urb, &gadget->device, sizeof(gadget->device));
	case USB_DT_CONFIG:
		return copy_descriptor(urb, gadget->config, gadget->config[2]);
	case USB_DT_STRING:
		return copy_descriptor(urb, gadget->product, strlen(gadget->product) + 1);
	}
	return -EPIPE;
}

static int handle_control_request(struct urb *urb)
{
	switch (urb->request) {
	case USB_REQ_GET_DESCRIPTOR:
		return handle_get_descriptor(urb);
	case USB_REQ_GET_STATUS:
		return copy_descriptor(urb, "\0", 2);
	case USB_REQ_SET_ADDRESS:
	case USB_REQ_SET_CONFIGURATION:
	case USB_REQ_SET_INTERFACE:
		return 0;
	}
	return -EPIPE;
}

static void usb_hcd_giveback_urb(struct urb *urb, int result)
{
	urb->status = min(result, 0);
	urb->actual_length = max(result, 0);
	complete(&urb->done);
}

static struct urb *next_urb(void)
{
	struct urb *urb = NULL;
	unsigned long flags;

	spin_lock_irqsave(&hcd.lock, flags);
	if (!list_empty(&hcd.urbs)) {
		urb = list_first_entry(&hcd.urbs, struct urb, list);
		list_del_init(&urb->list);
		hcd.transfers++;
	}
	spin_unlock_irqrestore(&hcd.lock, flags);
	return urb;
}

static void dummy_timer(unsigned long unused)
{
	struct urb *urb;

	while ((urb = next_urb()))
		usb_hcd_giveback_urb(urb, handle_control_request(urb));
}

static int dummy_urb_enqueue(struct urb *urb)
{
	unsigned long flags;

	spin_lock_irqsave(&hcd.lock, flags);
	list_add_tail(&urb->list, &hcd.urbs);
	spin_unlock_irqrestore(&hcd.lock, flags);
	tasklet_schedule(&hcd.tasklet);
	return 0;
}

int usb_hcd_submit_urb(struct urb *urb)
{
	if (urb->dev->state == USB_STATE_NOTATTACHED)
		return -ENODEV;
	return dummy_urb_enqueue(urb);
}

int hcd_init(void)
{
	spin_lock_init(&hcd.lock);
	INIT_LIST_HEAD(&hcd.urbs);
	tasklet_init(&hcd.tasklet, dummy_timer, 0);
	return 0;
}

/* The last transfer has completed, so at most the end of the tasklet still runs. */
void hcd_exit(void)
{
	msleep(2);
}
