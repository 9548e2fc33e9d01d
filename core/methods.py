"""Names of the ways to patch text and to find call sites: the command line needs no more."""

PATCH_METHODS = ("stop_machine", "breakpoint", "none", "nmi_enter")
"""Ways to write text: with all CPUs stopped, with a breakpoint in between, without either, or
with all CPUs stopped and with the help of NMIs."""

DISCOVERIES = ("table", "ftraced", "ftraced-batch")
"""Ways to find call sites: in a table by the compiler or linker, or by ftraced as they run.

ftraced begins with one page of slots, or with a large batch of them, as in 2008."""
