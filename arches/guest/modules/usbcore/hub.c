// SPDX-License-Identifier: GPL-2.0-or-later
/* Detection of new devices, and khubd, which watches the ports. Modelled on
 * drivers/usb/core/hub.c. */
#include "usb.h"

struct usb_hub {
	struct usb_interface *intf;
	unsigned int nports, events;
};

static struct task_struct *khubd_task;
static struct usb_device *root_hub;
static LIST_HEAD(usb_devices);
static DEFINE_SPINLOCK(device_state_lock);
static DEFINE_MUTEX(hub_port_mutex);
static u32 devnum_map = 1; /* no device has number 0 */

static int choose_devnum(struct usb_device *dev)
{
	int n;

	spin_lock(&device_state_lock);
	for (n = 1; n < 32 && (devnum_map & (1u << n)); n++)
		;
	if (n < 32)
		devnum_map |= 1u << n;
	spin_unlock(&device_state_lock);
	dev->devnum = n < 32 ? n : 0;
	return dev->devnum ? 0 : -ENOSPC;
}

static void release_devnum(struct usb_device *dev)
{
	spin_lock(&device_state_lock);
	devnum_map &= ~(1u << dev->devnum) | 1;
	spin_unlock(&device_state_lock);
}

static void usb_set_device_state(struct usb_device *dev, enum usb_device_state state)
{
	spin_lock(&device_state_lock);
	dev->state = state;
	spin_unlock(&device_state_lock);
}

static int hub_set_address(struct usb_device *dev)
{
	int ret = usb_control_msg(dev, USB_REQ_SET_ADDRESS, 0, dev->devnum, 0, NULL, 0);

	if (ret >= 0)
		usb_set_device_state(dev, USB_STATE_ADDRESS);
	return ret;
}

/* Power on, assign number and address, read the first descriptor. */
static int hub_port_init(struct usb_device *dev)
{
	int err;

	usb_set_device_state(dev, USB_STATE_DEFAULT);
	err = choose_devnum(dev);
	if (err)
		return err;
	err = hub_set_address(dev);
	if (err < 0)
		return err;
	err = usb_get_descriptor(dev, USB_DT_DEVICE, 0, &dev->descriptor,
				 sizeof(dev->descriptor));
	return err == sizeof(dev->descriptor) ? 0 : -EIO;
}

static int usb_enumerate_device(struct usb_device *dev)
{
	int err = usb_get_configuration(dev);

	if (err)
		return err;
	return usb_string(dev, dev->descriptor.iProduct, dev->product, sizeof(dev->product)) < 0
		       ? -EIO : 0;
}

static void announce_device(struct usb_device *dev)
{
	printk("usb 1-%d: New USB device found: %s", dev->devnum, dev->product);
}

static int usb_new_device(struct usb_device *dev)
{
	int err = usb_enumerate_device(dev);

	if (!err)
		err = usb_set_configuration(dev, 1);
	if (err)
		return err;
	spin_lock(&device_state_lock);
	list_add_tail(&dev->list, &usb_devices);
	spin_unlock(&device_state_lock);
	usb_bind_interfaces(dev);
	return 0;
}

void usb_disconnect(struct usb_device *dev)
{
	usb_set_device_state(dev, USB_STATE_NOTATTACHED);
	usb_unbind_interfaces(dev);
	spin_lock(&device_state_lock);
	list_del_init(&dev->list);
	spin_unlock(&device_state_lock);
	release_devnum(dev);
	usb_put_dev(dev);
}

/* A device appeared on a port: return its usb_device, or an error pointer. */
struct usb_device *hub_port_connect(const struct usb_gadget *gadget)
{
	struct usb_device *dev = usb_alloc_dev(gadget);
	int err;

	if (!dev)
		return ERR_PTR(-ENOMEM);
	mutex_lock(&hub_port_mutex);
	err = hub_port_init(dev);
	if (!err)
		err = usb_new_device(dev);
	mutex_unlock(&hub_port_mutex);
	if (err) {
		usb_disconnect(dev);
		return ERR_PTR(err);
	}
	return dev;
}

static int hub_configure(struct usb_hub *hub)
{
	hub->nports = hub->intf->cur_altsetting->desc.bNumEndpoints;
	return hub->nports ? 0 : -ENODEV;
}

static int hub_probe(struct usb_interface *intf, const struct usb_device_id *id)
{
	struct usb_hub *hub = kzalloc(sizeof(*hub), GFP_KERNEL);
	int err;

	if (!hub)
		return -ENOMEM;
	hub->intf = usb_get_intf(intf);
	err = hub_configure(hub);
	if (err) {
		usb_put_intf(intf);
		kfree(hub);
		return err;
	}
	intf->driver_data = hub;
	return 0;
}

static void hub_disconnect(struct usb_interface *intf)
{
	struct usb_hub *hub = intf->driver_data;

	intf->driver_data = NULL;
	usb_put_intf(hub->intf);
	kfree(hub);
}

static struct usb_driver hub_driver = {
	.name = "hub",
	.probe = hub_probe,
	.disconnect = hub_disconnect,
	.id = { USB_CLASS_HUB },
};

static int hub_port_status(struct usb_device *dev)
{
	u8 status[2];

	return usb_control_msg(dev, USB_REQ_GET_STATUS, USB_DIR_IN, 0, 0, status, sizeof(status));
}

static void hub_events(void)
{
	struct usb_interface *intf = usb_ifnum_to_if(root_hub, 0);
	struct usb_hub *hub = intf ? intf->driver_data : NULL;

	if (hub && hub_port_status(root_hub) >= 0)
		hub->events++;
}

static int hub_thread(void *unused)
{
	while (!kthread_should_stop()) {
		hub_events();
		schedule_timeout_interruptible(100);
	}
	return 0;
}

int hub_init(void)
{
	int err = usb_register_driver(&hub_driver);

	if (err)
		return err;
	root_hub = hub_port_connect(&usb_fake_hub);
	if (IS_ERR(root_hub)) {
		usb_deregister(&hub_driver);
		return PTR_ERR(root_hub);
	}
	announce_device(root_hub);
	khubd_task = kthread_run(hub_thread, NULL, "khubd");
	if (IS_ERR(khubd_task)) {
		usb_disconnect(root_hub);
		usb_deregister(&hub_driver);
		return PTR_ERR(khubd_task);
	}
	return 0;
}

void hub_exit(void)
{
	kthread_stop(khubd_task);
	usb_disconnect(root_hub);
	usb_deregister(&hub_driver);
}
