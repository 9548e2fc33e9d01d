/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Devices, configurations, interfaces. Modelled on linux/usb.h and linux/usb/ch9.h. */
#ifndef USB_H
#define USB_H

#include "irq.h"
#include "mm.h"
#include "module.h"
#include "sched.h"
#include "workload.h"

#define USB_MAXINTERFACES 4
#define USB_MAXALTSETTING 2
#define USB_DIR_IN 0x80

#define USB_REQ_GET_STATUS 0x00
#define USB_REQ_SET_ADDRESS 0x05
#define USB_REQ_GET_DESCRIPTOR 0x06
#define USB_REQ_SET_CONFIGURATION 0x09
#define USB_REQ_SET_INTERFACE 0x0b
#define USB_DT_DEVICE 1
#define USB_DT_CONFIG 2
#define USB_DT_STRING 3
#define USB_DT_INTERFACE 4
#define USB_CLASS_HUB 9

enum usb_device_state {
	USB_STATE_NOTATTACHED, USB_STATE_POWERED, USB_STATE_DEFAULT, USB_STATE_ADDRESS,
	USB_STATE_CONFIGURED,
};

/* As on the wire; all fields are bytes, so byte order does not matter. */
struct usb_device_descriptor {
	u8 bLength, bDescriptorType, bDeviceClass, bMaxPacketSize0;
	u8 idVendor[2], idProduct[2], iProduct, bNumConfigurations;
};

struct usb_config_descriptor {
	u8 bLength, bDescriptorType, wTotalLength, bNumInterfaces, bConfigurationValue;
};

struct usb_interface_descriptor {
	u8 bLength, bDescriptorType, bInterfaceNumber, bAlternateSetting;
	u8 bNumEndpoints, bInterfaceClass;
};

struct usb_host_interface {
	struct usb_interface_descriptor desc;
};

struct usb_device;
struct usb_driver;

struct usb_interface {
	struct usb_host_interface altsetting[USB_MAXALTSETTING];
	struct usb_host_interface *cur_altsetting;
	unsigned int num_altsetting;
	struct usb_device *dev;
	struct usb_driver *driver;
	void *driver_data;
	int refcount;
};

struct usb_host_config {
	struct usb_config_descriptor desc;
	struct usb_interface *interface[USB_MAXINTERFACES];
	unsigned int num_interfaces;
};

struct usb_device {
	int devnum;
	enum usb_device_state state;
	struct usb_device_descriptor descriptor;
	struct usb_host_config *actconfig;
	char product[24];
	const struct usb_gadget *gadget; /* the device at the other end of the wire */
	int refcount;
	spinlock_t lock;
	struct list_head list;
};

struct usb_device_id {
	u8 bInterfaceClass;
};

struct usb_driver {
	const char *name;
	int (*probe)(struct usb_interface *intf, const struct usb_device_id *id);
	void (*disconnect)(struct usb_interface *intf);
	struct usb_device_id id;
	struct module *owner;
	struct list_head list;
};

struct urb {
	struct usb_device *dev;
	u8 request, request_type;
	u16 value, index, length;
	void *buffer;
	int status, actual_length;
	struct completion done;
	struct list_head list;
};

/* A device in memory: its descriptors. */
struct usb_gadget {
	struct usb_device_descriptor device;
	const u8 *config;
	const char *product;
};

extern const struct usb_gadget usb_fake_hub, usb_fake_storage;

/* core.c */
struct usb_device *usb_alloc_dev(const struct usb_gadget *gadget);
struct usb_device *usb_get_dev(struct usb_device *dev);
void usb_put_dev(struct usb_device *dev);
struct usb_interface *usb_get_intf(struct usb_interface *intf);
void usb_put_intf(struct usb_interface *intf);
struct usb_interface *usb_ifnum_to_if(const struct usb_device *dev, unsigned int ifnum);
struct usb_host_interface *usb_altnum_to_altsetting(const struct usb_interface *intf,
						    unsigned int altnum);
int usb_register_driver(struct usb_driver *driver);
void usb_deregister(struct usb_driver *driver);
int usb_bind_interfaces(struct usb_device *dev);
void usb_unbind_interfaces(struct usb_device *dev);

/* message.c */
int usb_control_msg(struct usb_device *dev, u8 request, u8 request_type, u16 value, u16 index,
		    void *data, u16 size);
int usb_get_descriptor(struct usb_device *dev, u8 type, u8 index, void *buf, int size);
int usb_string(struct usb_device *dev, int index, char *buf, int size);
int usb_set_interface(struct usb_device *dev, int interface, int alternate);
int usb_get_configuration(struct usb_device *dev);
int usb_set_configuration(struct usb_device *dev, int configuration);
void usb_destroy_configuration(struct usb_device *dev);

/* device.c: the host controller and what is plugged into it */
int hcd_init(void);
void hcd_exit(void);
int usb_hcd_submit_urb(struct urb *urb);

/* hub.c */
int hub_init(void);
void hub_exit(void);
struct usb_device *hub_port_connect(const struct usb_gadget *gadget);
void usb_disconnect(struct usb_device *dev);

/* The module's name; each build has its own. */
#ifndef USBCORE
#define USBCORE "usbcore"
#endif

#endif
