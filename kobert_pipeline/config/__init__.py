"""Options, families of plug-ins, and recipe files."""
