"""Using a finished checkpoint: one loader, and one way from a text to its prediction."""
