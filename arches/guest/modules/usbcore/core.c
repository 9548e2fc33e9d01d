// SPDX-License-Identifier: GPL-2.0-or-later
/* Devices, interfaces and the drivers that claim them. Modelled on
 * drivers/usb/core/{usb,driver}.c. */
#include "usb.h"

static LIST_HEAD(usb_drivers);
static DEFINE_MUTEX(usb_driver_mutex);
static DEFINE_SPINLOCK(usb_ref_lock);

/* Reference counts change by plain stores under a lock, as module counts do. */
static int usb_ref(int *count, int delta)
{
	int left;

	spin_lock(&usb_ref_lock);
	left = *count += delta;
	spin_unlock(&usb_ref_lock);
	return left;
}

struct usb_device *usb_alloc_dev(const struct usb_gadget *gadget)
{
	struct usb_device *dev = kzalloc(sizeof(*dev), GFP_KERNEL);

	if (!dev)
		return NULL;
	dev->refcount = 1;
	dev->gadget = gadget;
	dev->state = USB_STATE_POWERED;
	INIT_LIST_HEAD(&dev->list);
	return dev;
}

struct usb_device *usb_get_dev(struct usb_device *dev)
{
	usb_ref(&dev->refcount, 1);
	return dev;
}
EXPORT_SYMBOL(usb_get_dev);

static void usb_release_dev(struct usb_device *dev)
{
	usb_destroy_configuration(dev);
	kfree(dev);
}

void usb_put_dev(struct usb_device *dev)
{
	if (!usb_ref(&dev->refcount, -1))
		usb_release_dev(dev);
}
EXPORT_SYMBOL(usb_put_dev);

struct usb_interface *usb_get_intf(struct usb_interface *intf)
{
	usb_ref(&intf->refcount, 1);
	return intf;
}
EXPORT_SYMBOL(usb_get_intf);

static void usb_release_interface(struct usb_interface *intf)
{
	kfree(intf);
}

void usb_put_intf(struct usb_interface *intf)
{
	if (!usb_ref(&intf->refcount, -1))
		usb_release_interface(intf);
}
EXPORT_SYMBOL(usb_put_intf);

struct usb_interface *usb_ifnum_to_if(const struct usb_device *dev, unsigned int ifnum)
{
	struct usb_host_config *config = dev->actconfig;

	if (!config)
		return NULL;
	for (int i = 0; i < USB_MAXINTERFACES; i++)
		if (config->interface[i] &&
		    config->interface[i]->altsetting[0].desc.bInterfaceNumber == ifnum)
			return config->interface[i];
	return NULL;
}
EXPORT_SYMBOL(usb_ifnum_to_if);

struct usb_host_interface *usb_altnum_to_altsetting(const struct usb_interface *intf,
						    unsigned int altnum)
{
	for (unsigned int i = 0; i < intf->num_altsetting; i++)
		if (intf->altsetting[i].desc.bAlternateSetting == altnum)
			return (struct usb_host_interface *)&intf->altsetting[i];
	return NULL;
}
EXPORT_SYMBOL(usb_altnum_to_altsetting);

static int usb_match_id(struct usb_interface *intf, const struct usb_device_id *id)
{
	return intf->cur_altsetting->desc.bInterfaceClass == id->bInterfaceClass;
}

static int usb_probe_interface(struct usb_interface *intf, struct usb_driver *driver)
{
	int err;

	if (driver->owner && !try_module_get(driver->owner))
		return -ENODEV;
	err = driver->probe(intf, &driver->id);
	if (!err)
		intf->driver = driver;
	else if (driver->owner)
		module_put(driver->owner);
	return err;
}

static void usb_unbind_interface(struct usb_interface *intf)
{
	struct usb_driver *driver = intf->driver;

	if (!driver)
		return;
	driver->disconnect(intf);
	intf->driver = NULL;
	if (driver->owner)
		module_put(driver->owner);
}

/* Offer each interface to each driver; return the number taken. */
int usb_bind_interfaces(struct usb_device *dev)
{
	struct usb_driver *driver;
	int bound = 0;

	mutex_lock(&usb_driver_mutex);
	for (int i = 0; i < USB_MAXINTERFACES; i++) {
		struct usb_interface *intf = usb_ifnum_to_if(dev, i);

		if (!intf)
			continue;
		list_for_each_entry(driver, &usb_drivers, list)
			if (!intf->driver && usb_match_id(intf, &driver->id))
				bound += !usb_probe_interface(intf, driver);
	}
	mutex_unlock(&usb_driver_mutex);
	return bound;
}

void usb_unbind_interfaces(struct usb_device *dev)
{
	mutex_lock(&usb_driver_mutex);
	for (int i = 0; i < USB_MAXINTERFACES; i++) {
		struct usb_interface *intf = usb_ifnum_to_if(dev, i);

		if (intf)
			usb_unbind_interface(intf);
	}
	mutex_unlock(&usb_driver_mutex);
}

int usb_register_driver(struct usb_driver *driver)
{
	mutex_lock(&usb_driver_mutex);
	list_add_tail(&driver->list, &usb_drivers);
	mutex_unlock(&usb_driver_mutex);
	printk("usbcore: registered new interface driver %s", driver->name);
	return 0;
}
EXPORT_SYMBOL(usb_register_driver);

void usb_deregister(struct usb_driver *driver)
{
	mutex_lock(&usb_driver_mutex);
	list_del_init(&driver->list);
	mutex_unlock(&usb_driver_mutex);
	printk("usbcore: deregistering interface driver %s", driver->name);
}
EXPORT_SYMBOL(usb_deregister);

/* One round: plug in a device, use its interfaces, unplug it. */
static int usb_exercise(struct usb_device *dev)
{
	struct usb_interface *intf = usb_ifnum_to_if(dev, 0);
	int err;

	if (!intf)
		return -ENODEV;
	usb_get_intf(intf);
	err = usb_set_interface(dev, 0, 1);
	if (!err)
		err = usb_set_interface(dev, 0, 0);
	usb_put_intf(intf);
	return err;
}

static long usb_workload(unsigned long n)
{
	struct usb_device *dev;
	long err;

	if (!try_module_get(THIS_MODULE))
		return -ENODEV;
	dev = hub_port_connect(&usb_fake_storage);
	if (IS_ERR(dev)) {
		err = PTR_ERR(dev);
	} else {
		err = usb_exercise(dev);
		usb_disconnect(dev);
	}
	module_put(THIS_MODULE);
	return err;
}

static int usb_init(void)
{
	int err = hcd_init();

	if (!err)
		err = hub_init();
	if (!err)
		usb_register_workload(usb_workload);
	return err;
}

static void usb_exit(void)
{
	usb_unregister_workload(usb_workload);
	hub_exit();
	hcd_exit();
}

MODULE_LICENSE("GPL");
DEFINE_MODULE(USBCORE, "", usb_init, usb_exit);
