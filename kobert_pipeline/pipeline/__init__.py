"""The stages put together; start reading at `stages.py`."""
