// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A driver for storage devices behind a hub. It uses exports of usbcore and cannot
 * be loaded without it. While this module is loaded, it probes every device that
 * the workload `usb` plugs in.
 */
#include "usbcore/usb.h"

struct usbhub_storage {
	struct usb_interface *intf;
	char product[24];
	unsigned int settings;
};

static int usbhub_count_settings(struct usb_interface *intf)
{
	int n = 0;

	while (usb_altnum_to_altsetting(intf, n))
		n++;
	return n;
}

static int usbhub_probe(struct usb_interface *intf, const struct usb_device_id *id)
{
	struct usbhub_storage *us = kzalloc(sizeof(*us), GFP_KERNEL);

	if (!us)
		return -ENOMEM;
	us->intf = usb_get_intf(intf);
	us->settings = usbhub_count_settings(intf);
	usb_string(intf->dev, 1, us->product, sizeof(us->product));
	intf->driver_data = us;
	return 0;
}

static void usbhub_disconnect(struct usb_interface *intf)
{
	struct usbhub_storage *us = intf->driver_data;

	intf->driver_data = NULL;
	usb_put_intf(us->intf);
	kfree(us);
}

static struct usb_driver usbhub_driver = {
	.name = "usbhub",
	.probe = usbhub_probe,
	.disconnect = usbhub_disconnect,
	.id = { 8 },
	.owner = &__this_module,
};

static int usbhub_init(void)
{
	return usb_register_driver(&usbhub_driver);
}

static void usbhub_exit(void)
{
	usb_deregister(&usbhub_driver);
}

MODULE_LICENSE("GPL");
DEFINE_MODULE("usbhub", "usbcore", usbhub_init, usbhub_exit);
