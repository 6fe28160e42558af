"""Evaluate a checkpoint on a labelled file: clean, by kind of text, under noise, and where its answers are wrong."""
