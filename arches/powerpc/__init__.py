"""The code that the PowerPC ports share: instructions, call sites, relocations, verbs."""
