"""What the x86 ports share: instructions, call sites, reports of faults, verbs."""
