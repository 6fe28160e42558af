"""The local server, and the real data where they are at hand."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "morphemes"))

from front_end import real_data  # noqa: F401
from local_server import server  # noqa: F401
