"""The machine: one memory, its vCPUs, virtual time, interrupts and faults."""
