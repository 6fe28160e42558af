"""Cut every document into morphemes and sentences, once, and store where."""
