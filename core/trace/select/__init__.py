"""Which events and rows of a trace are shown: filters, folds, search."""
