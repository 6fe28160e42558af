"""Token ids with all their boundaries, flat and memory mapped; pairs, masks and packs are made from them at load
time."""
