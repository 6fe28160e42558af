"""Whatever a user hands us becomes rows with a location; bad rows are collected here, once."""
