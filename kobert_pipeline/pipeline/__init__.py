"""The stages connected into a pipeline; start reading at `stages.py`."""
