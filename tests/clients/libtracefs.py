"""A Python program that traces through libtracefs, as bindings do; prints what it finds."""

import ctypes
import time

tracefs = ctypes.CDLL("libtracefs.so.1")
tracefs.tracefs_tracing_dir.restype = ctypes.c_char_p
tracefs.tracefs_tracers.restype = ctypes.POINTER(ctypes.c_char_p)
tracefs.tracefs_instance_file_read.restype = ctypes.c_char_p

print(tracefs.tracefs_tracing_dir(None).decode())
names = tracefs.tracefs_tracers(None)
found = []
while names[len(found)]:
    found.append(names[len(found)].decode())
print(*found)
assert tracefs.tracefs_function_filter(None, b"^schedule$", None, 1) == 0
assert tracefs.tracefs_instance_file_write(None, b"current_tracer", b"function") > 0
assert tracefs.tracefs_trace_on(None) == 0
time.sleep(0.3)
assert tracefs.tracefs_trace_off(None) == 0
print(tracefs.tracefs_instance_file_read(None, b"trace", None).decode())
assert tracefs.tracefs_instance_file_write(None, b"current_tracer", b"nop") > 0
