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
    """What to read and what to drop."""

    sources: list[Reader] = Field(min_length=1)
    """Readers, read in this order."""
    cleaning: CleaningOptions = CleaningOptions()
    """What is done to every text."""
    filters: FilterOptions = FilterOptions()
    """Thresholds of the document filters."""
    deduplicate: DeduplicateOptions = DeduplicateOptions()
    """Which copies are dropped."""
    decontaminate: list[Reader] = []
    """Evaluation sets whose texts must not be trained on."""
    part_characters: int = Field(4_000_000, gt=0)
    """Characters read for one part, which is one task; parts are what later stages resume by."""
    keep_dropped: bool = False
    """Write dropped documents and why to the folder `dropped`."""
    executor: Executor = Field(Local(), exclude=True)
    """Where the tasks run: local, ray or slurm. It cannot change the result."""

    @field_validator("decontaminate")
    @classmethod
    def _whole(cls, readers: list[Reader]) -> list[Reader]:
        refuse_skipping(readers, "an evaluation set")
        return readers
