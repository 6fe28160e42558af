"""Pretraining: documents -> segment pairs -> masked, packed batches -> a checkpoint."""
