"""Read documents, clean them, and drop, with a reason, those that must not be used for training."""
