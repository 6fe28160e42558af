"""One file per place where tasks run."""
