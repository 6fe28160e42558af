"""No analyzer: eojeols, the control of every comparison."""

from typing import Literal

from kobert_pipeline.analysis.analyzer import Analyzer


class Whitespace(Analyzer):
    """The raw text cut at white space only."""

    name: Literal["whitespace"] = "whitespace"
