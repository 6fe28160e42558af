"""The rooms up to the shards share their fixtures; they are in `front_end.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "morphemes"))

from front_end import bundled, front_end, kiwi, real_data, tokenizer  # noqa: F401
