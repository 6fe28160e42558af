"""How good a fine-tuned checkpoint is on a labelled file, how it bears noise, and where its answers go wrong."""
