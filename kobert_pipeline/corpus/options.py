"""The options of the corpus stage."""

from pydantic import Field, field_validator

from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.cleaning import CleaningOptions
from kobert_pipeline.corpus.deduplicate import DeduplicateOptions
from kobert_pipeline.corpus.executor import Executor
from kobert_pipeline.corpus.executors.local import Local
from kobert_pipeline.corpus.filters import FilterOptions
from kobert_pipeline.corpus.reader import Reader, refuse_skipping


class CorpusOptions(Options):
    """What to read, how to clean it, and what to drop."""

    sources: list[Reader] = Field(min_length=1)
    """Readers, read in this order."""
    cleaning: CleaningOptions = CleaningOptions()
    """How every text is cleaned."""
    filters: FilterOptions = FilterOptions()
    """Thresholds of the document filters."""
    deduplicate: DeduplicateOptions = DeduplicateOptions()
    """Which copies are dropped."""
    decontaminate: list[Reader] = []
    """Evaluation sets whose texts must not be trained on."""
    part_characters: int = Field(4_000_000, gt=0)
    """Characters per part. A part is the work of one task, and the unit by which later stages resume."""
    keep_dropped: bool = False
    """Write dropped documents, with the reason, to the folder `dropped`."""
    executor: Executor = Field(Local(), exclude=True)
    """Where the tasks of this stage, `analysis`, `shards` and `features` run: local, ray or slurm. It does not affect
    the result."""

    @field_validator("decontaminate")
    @classmethod
    def _refuse_skipping(cls, readers: list[Reader]) -> list[Reader]:
        refuse_skipping(readers, "an evaluation set")
        return readers
