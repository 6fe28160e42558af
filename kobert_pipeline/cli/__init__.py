"""The command `kobert`: its commands, how results are printed, and exit codes."""
