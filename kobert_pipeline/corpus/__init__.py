"""Read documents, clean them, drop what must not be learned from, each with its reason."""
