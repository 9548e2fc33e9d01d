"""Events as text: rows in the kernel's formats."""
