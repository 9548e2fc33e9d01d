"""What a kernel or module file contains once it is unpacked."""
