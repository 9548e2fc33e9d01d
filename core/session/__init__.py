"""One open machine: its boots, its journal, stepping, checkpoints."""
