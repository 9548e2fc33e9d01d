"""Loading and unloading modules."""
