"""Token ids with all their borders, flat and memory mapped; pairs, masks and packs are made from them at load time."""
