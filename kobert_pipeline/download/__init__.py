"""Known Korean data sets: where they are, under which licence, and how to download and check their files."""
