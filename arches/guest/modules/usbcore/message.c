// SPDX-License-Identifier: GPL-2.0-or-later
/* Requests to a device, and parsing of its answers. Modelled on
 * drivers/usb/core/{message,urb,config}.c. */
#include "usb.h"

static void usb_init_urb(struct urb *urb, struct usb_device *dev)
{
	memset(urb, 0, sizeof(*urb));
	urb->dev = dev;
	init_completion(&urb->done);
	INIT_LIST_HEAD(&urb->list);
}

static struct urb *usb_alloc_urb(struct usb_device *dev)
{
	struct urb *urb = kmalloc(sizeof(*urb), GFP_KERNEL);

	if (urb)
		usb_init_urb(urb, dev);
	return urb;
}

static void usb_free_urb(struct urb *urb)
{
	kfree(urb);
}

static int usb_submit_urb(struct urb *urb)
{
	return usb_hcd_submit_urb(urb);
}

static int usb_start_wait_urb(struct urb *urb)
{
	int err = usb_submit_urb(urb);

	if (err)
		return err;
	wait_for_completion(&urb->done);
	return urb->status ? urb->status : urb->actual_length;
}

/* Return the bytes transferred, or -errno. */
int usb_control_msg(struct usb_device *dev, u8 request, u8 request_type, u16 value, u16 index,
		    void *data, u16 size)
{
	struct urb *urb = usb_alloc_urb(dev);
	int ret;

	if (!urb)
		return -ENOMEM;
	urb->request = request;
	urb->request_type = request_type;
	urb->value = value;
	urb->index = index;
	urb->length = size;
	urb->buffer = data;
	ret = usb_start_wait_urb(urb);
	usb_free_urb(urb);
	return ret;
}
EXPORT_SYMBOL(usb_control_msg);

int usb_get_descriptor(struct usb_device *dev, u8 type, u8 index, void *buf, int size)
{
	return usb_control_msg(dev, USB_REQ_GET_DESCRIPTOR, USB_DIR_IN, type << 8 | index, 0, buf,
			       size);
}
EXPORT_SYMBOL(usb_get_descriptor);

int usb_string(struct usb_device *dev, int index, char *buf, int size)
{
	int n = usb_get_descriptor(dev, USB_DT_STRING, index, buf, size - 1);

	buf[max(n, 0)] = 0;
	return n;
}
EXPORT_SYMBOL(usb_string);

int usb_set_interface(struct usb_device *dev, int interface, int alternate)
{
	struct usb_interface *intf = usb_ifnum_to_if(dev, interface);
	struct usb_host_interface *alt;
	int ret;

	if (!intf)
		return -EINVAL;
	alt = usb_altnum_to_altsetting(intf, alternate);
	if (!alt)
		return -EINVAL;
	ret = usb_control_msg(dev, USB_REQ_SET_INTERFACE, 0, alternate, interface, NULL, 0);
	if (ret >= 0)
		intf->cur_altsetting = alt;
	return ret;
}
EXPORT_SYMBOL(usb_set_interface);

static struct usb_interface *usb_alloc_interface(struct usb_device *dev)
{
	struct usb_interface *intf = kzalloc(sizeof(*intf), GFP_KERNEL);

	if (intf) {
		intf->dev = dev;
		intf->refcount = 1;
	}
	return intf;
}

static int usb_parse_interface(struct usb_device *dev, struct usb_host_config *config,
			       const u8 *buf)
{
	const struct usb_interface_descriptor *desc = (const void *)buf;
	struct usb_interface *intf;

	if (desc->bInterfaceNumber >= USB_MAXINTERFACES)
		return -EINVAL;
	intf = config->interface[desc->bInterfaceNumber];
	if (!intf) {
		intf = usb_alloc_interface(dev);
		if (!intf)
			return -ENOMEM;
		config->interface[desc->bInterfaceNumber] = intf;
		config->num_interfaces++;
	}
	if (intf->num_altsetting == USB_MAXALTSETTING)
		return -EINVAL;
	intf->altsetting[intf->num_altsetting++].desc = *desc;
	intf->cur_altsetting = &intf->altsetting[0];
	return 0;
}

static int usb_parse_configuration(struct usb_device *dev, struct usb_host_config *config,
				   const u8 *buf, int size)
{
	int err = 0;

	memcpy(&config->desc, buf, sizeof(config->desc));
	for (int at = buf[0]; !err && at + buf[at] <= size && buf[at]; at += buf[at])
		if (buf[at + 1] == USB_DT_INTERFACE)
			err = usb_parse_interface(dev, config, buf + at);
	return err;
}

void usb_destroy_configuration(struct usb_device *dev)
{
	struct usb_host_config *config = dev->actconfig;

	dev->actconfig = NULL;
	if (!config)
		return;
	for (int i = 0; i < USB_MAXINTERFACES; i++)
		if (config->interface[i])
			usb_put_intf(config->interface[i]);
	kfree(config);
}

int usb_get_configuration(struct usb_device *dev)
{
	struct usb_host_config *config = kzalloc(sizeof(*config), GFP_KERNEL);
	u8 buf[64];
	int n, err;

	if (!config)
		return -ENOMEM;
	dev->actconfig = config;
	n = usb_get_descriptor(dev, USB_DT_CONFIG, 0, buf, sizeof(buf));
	err = n < (int)sizeof(config->desc) ? -EINVAL
					    : usb_parse_configuration(dev, config, buf, n);
	if (err)
		usb_destroy_configuration(dev);
	return err;
}

int usb_set_configuration(struct usb_device *dev, int configuration)
{
	int ret = usb_control_msg(dev, USB_REQ_SET_CONFIGURATION, 0, configuration, 0, NULL, 0);

	if (ret >= 0)
		dev->state = USB_STATE_CONFIGURED;
	return ret;
}
