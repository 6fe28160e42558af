"""Publish a trained model as a folder that `transformers` loads, with a model card, checked in a fresh process."""
