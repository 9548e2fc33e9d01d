"""Dynamic ftrace: records of call sites, who wants them, and text that follows."""
