"""Load a finished checkpoint and predict with it."""
