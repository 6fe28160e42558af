"""Pictures of a checkpoint and of a run: attention, tokenization, sentence vectors by layer, learning curves."""
