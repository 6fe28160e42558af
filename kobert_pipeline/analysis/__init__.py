"""The stage that finds the morphemes and sentences of every document, once, and stores where they are."""
