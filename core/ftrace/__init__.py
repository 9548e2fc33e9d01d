"""Dynamic ftrace: records of call sites, their users, and the text patched accordingly."""
