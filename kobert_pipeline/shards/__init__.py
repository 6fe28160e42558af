"""The corpus as flat, memory-mapped token ids with all their boundaries.

Sentence pairs, masks and packed sequences are made from them at load time, so one set of shards serves every objective.
"""
