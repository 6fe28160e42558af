"""The options of the stage features: the files of one task, and what is made from the corpus."""

from pydantic import Field, model_validator

from kobert_pipeline.config.options import Options, Seed
from kobert_pipeline.features.task import Task
from kobert_pipeline.questions.corpus_pairs import CorpusPairs
from kobert_pipeline.questions.generate import QuestionGeneration


class FeaturesOptions(Options):
    """The data of one task."""

    task: Task
    """The task, which says how files are read."""
    train: str | list[str] = []
    """Training files below data_dir; none only where `synthesize` or `pairs` makes the training set."""
    dev: str | None = None
    """Development file; default: a part of train."""
    test: str | None = None
    """Test file, used only for the final scores."""
    dev_share: float = Field(0.05, gt=0, lt=0.5)
    """Share of train that becomes dev where there is no dev file; groups (equal texts, or one context) are not
    split."""
    dev_seed: Seed = 1
    """Seed of the split into train and dev."""
    max_train_examples: int | None = Field(None, gt=0, exclude_if=lambda value: value is None)
    """Train on so many examples of the training files only, drawn at random from all that are not dev, to see what
    more labelling would bring. A smaller draw is part of a larger one; what `synthesize` or `pairs` makes is added.
    null: all."""
    max_length: int = Field(128, ge=16)
    """Tokens in a window, special tokens included."""
    plain_share: float = Field(0, ge=0, lt=1, exclude_if=lambda value: not value)
    """Share of the training examples, and of texts with soft labels, that are tokenized without the analyzer. Above 0
    so are dev and test, and the published model needs neither analyzer nor code."""
    unspaced_share: float = Field(0, ge=0, lt=1, exclude_if=lambda value: not value)
    """Share of the training examples, and of texts with soft labels, whose white space is removed, since many people
    write without it; for tasks that label texts or pairs. Dev and test keep theirs."""
    synthesize: QuestionGeneration | None = Field(None, exclude_if=lambda value: value is None)
    """Also train on questions that are made from the corpus by rules, for tasks that answer questions; where there are
    no training files, dev is taken from them, too. null: on the training files' questions alone."""
    pairs: CorpusPairs | None = Field(None, exclude_if=lambda value: value is None)
    """Also train on pairs of texts from the corpus, for the tasks contrastive and rerank; where there are no training
    files, dev is taken from the corpus, too. null: on the training files alone."""
    license: str | dict[str, str] | None = Field(None, exclude=True)
    """Licence of the files, for the model cards: one for all, or one for each file. Does not affect the features."""

    @model_validator(mode="after")
    def _has_train(self) -> "FeaturesOptions":
        if not self.train and not self.needs_corpus:
            raise ValueError("train names no file; name one or several")
        if not self.train and self.max_train_examples:
            limit = "synthesize.questions" if self.synthesize else "pairs.number"
            raise ValueError(f"max_train_examples is for training files, and train names none; give {limit} instead")
        return self

    @model_validator(mode="after")
    def _licenses_its_files(self) -> "FeaturesOptions":
        files = named_files(self)
        # a mistyped path would leave its file without a licence, and only the card would show it
        if isinstance(self.license, dict) and (others := [name for name in self.license if name not in files]):
            raise ValueError(f"license names {others[0]}, but the files are {', '.join(files)}; give each its licence")
        return self

    @model_validator(mode="after")
    def _unspaced_texts(self) -> "FeaturesOptions":
        if self.unspaced_share and ("context" in self.task.noisy_inputs or not self.task.noisy_inputs):
            raise ValueError(
                f"unspaced_share is for tasks that label texts or pairs, and {self.task.name} is none; leave it out"
            )
        return self

    @property
    def needs_corpus(self) -> bool:
        """Whether examples are made from the corpus."""
        return bool(self.synthesize or self.pairs)

    @property
    def makes_questions(self) -> bool:
        """Whether questions are made from the corpus."""
        return bool(self.synthesize or (self.pairs and self.pairs.kind == "questions"))

    def license_of(self, name: str) -> str | None:
        """The licence of one of the files; None if it is not stated."""
        return self.license.get(name) if isinstance(self.license, dict) else self.license


def train_files(options: FeaturesOptions) -> list[str]:
    """The names of the training files."""
    return [options.train] if isinstance(options.train, str) else list(options.train)


def named_files(options: FeaturesOptions) -> list[str]:
    """The names of all files: train's, then dev's and test's."""
    return [name for name in (*train_files(options), options.dev, options.test) if name]
