"""Options, plug-in families, and recipe files."""
