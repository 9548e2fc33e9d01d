"""The code that the x86 ports share: instructions, call sites, oops reports, verbs."""
