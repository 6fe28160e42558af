"""The schema of a recipe: one section per stage, and the checks between sections. `config/recipe_file.py` reads the
file itself (YAML, `--set`); each stage declares the options of its own section. The checks are in one file, since each
compares options of several stages."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator, model_validator

import kobert_pipeline.analysis.stage as analysis_stage
import kobert_pipeline.finetune.stage as finetune_stage
import kobert_pipeline.publish.stage as publish_stage
import kobert_pipeline.shards.stage as shards_stage
import kobert_pipeline.tokenizer.stage as tokenizer_stage
from kobert_pipeline.checkpoint.source import stated_licence
from kobert_pipeline.config.options import Options
from kobert_pipeline.corpus.options import CorpusOptions
from kobert_pipeline.errors import did_you_mean
from kobert_pipeline.features.options import FeaturesOptions, train_files
from kobert_pipeline.features.sequence import labels_single_texts
from kobert_pipeline.features.span import SpanTask
from kobert_pipeline.features.tagging import TaggingTask
from kobert_pipeline.features.task import Task
from kobert_pipeline.features.tasks.contrastive import Contrastive
from kobert_pipeline.features.tasks.rerank import Rerank
from kobert_pipeline.finetune.class_weights import learns_one_label
from kobert_pipeline.finetune.distill import Distillation
from kobert_pipeline.finetune.ngrams import BESIDE_ENCODER
from kobert_pipeline.pretrain.architecture import Architecture
from kobert_pipeline.pretrain.continued import AUTO_CLASSES
from kobert_pipeline.pretrain.options import PretrainOptions
from kobert_pipeline.publish.licences import file_row, identifier, refusal, split_names
from kobert_pipeline.training.trackers import Tracker

BASELINE = "ngrams"
PLAIN_NAME = re.compile(r"\w[\w.+-]{0,79}")
"""Allowed names of features, fine-tunings and checkpoints: they become folders of a run, so a name must neither lead
out of the run's folder nor be hidden."""


OWN_TOKENIZER = ("analysis", "tokenizer")
"""The sections that a recipe with a checkpoint does not have, since that brings its own tokenizer."""
SECTIONS_FROM_TEXT = (*OWN_TOKENIZER, "shards", "pretrain")
"""The sections that only a recipe with a corpus has."""


class Recipe(Options):
    """All options of a run, one section per stage."""

    description: str = ""
    """One sentence about the purpose of the recipe."""
    data_dir: str | None = None
    """Folder to which the paths of data files are relative; also set by the environment variable KOBERT_DATA."""
    report_to: tuple[Tracker, ...] = Field((), exclude=True)
    """Trackers that get what the logs of pretraining and fine-tuning get: tensorboard, wandb, trackio. Results do not
    depend on them, so they may change at any time."""
    checkpoint: str | None = None
    """Start from this checkpoint: a folder, relative to where the command runs, or a name on the Hugging Face Hub such
    as klue/bert-base or OWNER/NAME@REVISION. Its own tokenizer cuts all texts, so the recipe has no sections analysis
    and tokenizer. With a corpus it is pretrained further on that, without one it is fine-tuned as it is."""
    checkpoint_license: str | None = None
    """Licence of the checkpoint, for the model cards; default: what its own card states."""
    checkpoint_labels: dict[str, int] = {}
    """Names for the outputs of the checkpoint's head, by their numbers: {negative: 0, positive: 1}. A fine-tuning for
    the same labels, in any order and case, goes on with that head; for others it begins with a new one."""
    corpus: CorpusOptions | None = None
    """Text sources, cleaning and filters."""
    analysis: analysis_stage.AnalysisOptions = analysis_stage.AnalysisOptions()
    """Morphological analysis."""
    tokenizer: tokenizer_stage.TokenizerOptions = tokenizer_stage.TokenizerOptions()
    """Subword vocabulary."""
    shards: shards_stage.ShardsOptions = shards_stage.ShardsOptions()
    """Token ids of the corpus, and the share of it that is held out."""
    features: dict[str, FeaturesOptions] = {}
    """Labelled data sets for fine-tuning, by name."""
    pretrain: PretrainOptions = PretrainOptions()
    """Objective, architecture, and the number of tokens to train on."""
    finetune: dict[str, finetune_stage.FinetuneOptions] = {}
    """Fine-tunings by name."""
    publish: dict[str, publish_stage.PublishOptions] = {}
    """Published checkpoints by name."""
    table: dict[str, str] = Field({}, exclude=True)
    """Columns of the table of scores at the end of `kobert run`, and of `kobert compare --table`: the fine-tuning and
    the score of each, as in {STS r: sts.pearson}."""

    @field_validator("report_to", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _plain_names(self) -> "Recipe":
        for section in ("features", "finetune", "publish"):
            for name in getattr(self, section):
                if not PLAIN_NAME.fullmatch(name):
                    raise ValueError(
                        f"{section}: {name[:80]!r} is not a plain file name, which its folder in the run needs; use at "
                        "most 80 letters, digits, dots, dashes and underscores, starting with a letter or digit"
                    )
        return self

    @model_validator(mode="after")
    def _has_one_origin(self) -> "Recipe":
        if self.checkpoint is None and self.corpus is None:
            raise ValueError(
                "there is neither corpus nor checkpoint; name the texts to pretrain on, or a model to start from"
            )
        if self.checkpoint_labels and (self.checkpoint is None or self.continues):
            raise ValueError("checkpoint_labels is for a checkpoint that is fine-tuned as it is; leave it out")
        if self.checkpoint is None:
            self.pretrain.refuse_missing_head()
            self.pretrain.refuse_beyond_positions()
            if not self.pretrain.total_tokens:
                raise ValueError("pretrain.total_tokens is 0, which is for a recipe with a checkpoint; give more")
            return self
        if self.pretrains and self.pretrain.objective.head not in AUTO_CLASSES:
            raise ValueError(
                f"pretrain.objective is {self.pretrain.objective.name}, with which a checkpoint cannot be pretrained "
                "further; set pretrain.objective to mlm, or leave checkpoint out"
            )
        # compared with the defaults, which a dump of the recipe contains
        defaults = {name: field.default for name, field in type(self).model_fields.items()}
        stated_sections = [name for name in SECTIONS_FROM_TEXT if getattr(self, name) != defaults[name]]
        if self.corpus is None and stated_sections:
            raise ValueError(
                f"checkpoint is {self.checkpoint!r}, which takes the place of pretraining, but there is also "
                f"{', '.join(stated_sections)}; leave that out, or name the corpus that it is pretrained on further"
            )
        if self.corpus and not self.pretrains:
            self._check_unused_corpus()
        other = [name for name in OWN_TOKENIZER if name in stated_sections]
        other += [f"pretrain.{name}" for name in ("base", "word_vectors") if getattr(self.pretrain, name)]
        # compared as dumps, which leave out what does not change the model
        default = PretrainOptions().architecture
        is_stated = not self.pretrain.base and self.pretrain.architecture.dump() != default.dump()
        other += ["pretrain.architecture"] if is_stated else []
        if other:
            raise ValueError(
                f"checkpoint is {self.checkpoint!r}, whose own tokenizer, weights and sizes are used, but there is "
                f"also {', '.join(other)}; leave one out (for another vocabulary: pretrain.base without checkpoint)"
            )
        return self

    def _check_unused_corpus(self) -> None:
        """Raise ValueError where nothing reads the corpus of a checkpoint that is not pretrained further, or where
        there are options for that."""
        if not self.needs_shards and not any(prepared.needs_corpus for prepared in self.features.values()):
            raise ValueError(
                "pretrain.total_tokens is 0, and no features make examples from the corpus (synthesize, pairs); leave "
                "the corpus out, or give more tokens"
            )
        if self.pretrain.dump() != PretrainOptions(total_tokens=0).dump():
            raise ValueError("pretrain.total_tokens is 0, so its other options are not used; leave them out")

    @property
    def pretrains(self) -> bool:
        """Whether a model is pretrained, or pretrained further, on the corpus."""
        return self.corpus is not None and self.pretrain.total_tokens > 0

    @property
    def needs_shards(self) -> bool:
        """Whether the token ids of the corpus are read: in pretraining, or for soft labels of its texts."""
        return self.pretrains or (self.corpus is not None and any(tuned.distill for tuned in self.finetune.values()))

    @property
    def continues(self) -> bool:
        """Whether an existing checkpoint is pretrained further."""
        return self.checkpoint is not None and self.pretrains

    # before the next validator, which checks the baselines, too: pydantic runs them in this order
    @model_validator(mode="after")
    def _add_baselines(self) -> "Recipe":
        """Add a classifier over n-grams for each set of labelled single texts that has none."""
        used = {(tuned.features or name): tuned for name, tuned in self.finetune.items()}
        have = {tuned.features or name for name, tuned in self.finetune.items() if tuned.ngrams}
        for features in used:
            on_them = [tuned for name, tuned in self.finetune.items() if (tuned.features or name) == features]
            name = f"{features}-{BASELINE}"
            wanted = all(tuned.baseline == BASELINE for tuned in on_them) and features not in have
            if wanted and features in self.features and labels_single_texts(self.features[features].task):
                test = any(tuned.test for tuned in on_them)
                options = {"features": features, BASELINE: BESIDE_ENCODER.dump(), "test": test}
                self.finetune.setdefault(name, finetune_stage.FinetuneOptions.model_validate(options))
        return self

    @model_validator(mode="after")
    def _sections_fit_together(self) -> "Recipe":
        for name, tuned in self.finetune.items():
            self._check_finetuning(name, tuned)
        for name, published in self.publish.items():
            self._check_checkpoint(name, published)
        for title, column in self.table.items():
            name, _, score = column.partition(".")
            if name not in self.finetune or not score:
                raise ValueError(
                    f"table: '{title}' is '{column}'; FINETUNING.SCORE was expected, such as nli.accuracy, with one of "
                    f"the fine-tunings {', '.join(self.finetune)}"
                )
        analyzer = self.analysis.analyzer
        if self.tokenizer.user_words and not (analyzer.user_dictionary and analyzer.style in ("surface", "form")):
            raise ValueError(
                "tokenizer.user_words makes the words of analysis.analyzer.user_dictionary tokens; name that file, and "
                "use style surface or form"
            )
        positions = self.pretrain.architecture.max_position_embeddings
        for name, prepared in self.features.items():
            self._check_made_examples(name, prepared)
            # the positions of a checkpoint are known once it is fetched, and checked then
            if prepared.max_length > positions and self.checkpoint is None:
                raise ValueError(
                    f"features.{name}.max_length is {prepared.max_length}, but the model has {positions} positions "
                    "(pretrain.architecture.max_position_embeddings); lower the one or raise the other"
                )
        return self

    def _check_made_examples(self, name: str, prepared: FeaturesOptions) -> None:
        kinds = (("synthesize", "questions", SpanTask), ("pairs", "pairs of texts", (Contrastive, Rerank)))
        for option, what, kind in kinds:
            where = f"features.{name}.{option}"
            if getattr(prepared, option) and not isinstance(prepared.task, kind):
                raise ValueError(f"{where} makes {what}, but its task is {prepared.task.name}; leave it out")
            if getattr(prepared, option) and self.corpus is None:
                raise ValueError(f"{where} makes {what} from the corpus, but the recipe has none; name its sources")
        if prepared.pairs and not prepared.pairs.negatives and isinstance(prepared.task, Rerank):
            raise ValueError(
                f"features.{name}.pairs makes texts that belong together, and a reranker also learns from others; set "
                "kind: questions, and negatives to how many for each"
            )

    def _check_finetuning(self, name: str, tuned: finetune_stage.FinetuneOptions) -> None:
        if len(set(tuned.seeds)) < len(tuned.seeds):
            raise ValueError(
                f"finetune.{name}.seeds repeats a seed ({tuned.seeds}); remove it, each seed has its own folder"
            )
        features = tuned.features or name
        if features not in self.features:
            raise ValueError(
                f"finetune.{name} uses features '{features}', which the recipe does not define"
                f"{did_you_mean(features, self.features)}"
            )
        task, architecture = self.features[features].task, self.pretrain.architecture
        if self.checkpoint is None:
            validate_architecture(name, features, task, architecture)
        if tuned.earlier:
            self._check_init(name, tuned.earlier)
        if tuned.distill:
            self._check_distillation(name, tuned.distill, features)
        for option in ("ngrams", "with_ngrams", "distill"):  # they take the rows of the features for texts
            if getattr(tuned, option) and not labels_single_texts(task):
                raise ValueError(
                    f"finetune.{name}.{option} needs a task that gives a single text one of several labels, but "
                    f"{features} is for {task.name}; leave it out"
                )
        if tuned.encoder == "frozen" and not (isinstance(task, TaggingTask) or labels_single_texts(task)):
            raise ValueError(f"finetune.{name}.encoder is 'frozen', which {task.name} does not support; leave it out")
        if tuned.class_weights and not learns_one_label(task):
            raise ValueError(
                f"finetune.{name}.class_weights needs a task that gives a text or token one of several labels, but "
                f"{features} is for {task.name}; leave it out"
            )

    def _check_init(self, name: str, init: str) -> None:
        earlier = list(self.finetune)[: list(self.finetune).index(name)]
        models = [other for other in earlier if (tuned := self.finetune[other]).encoder == "tuned" and not tuned.ngrams]
        if init not in models:
            raise ValueError(
                f"finetune.{name}.init is '{init}', which is neither pretrained nor scratch nor an earlier fine-tuning "
                f"of an encoder{did_you_mean(init, [finetune_stage.PRETRAINED, finetune_stage.SCRATCH, *models])}"
            )

    def _check_distillation(self, name: str, options: Distillation, features: str) -> None:
        where, earlier = f"finetune.{name}.distill", list(self.finetune)[: list(self.finetune).index(name)]
        teachers = [other for other in earlier if (self.finetune[other].features or other) == features]
        for teacher in options.teachers:
            if teacher not in teachers:
                raise ValueError(
                    f"{where}.teachers has '{teacher}', which is not an earlier fine-tuning on the features "
                    f"'{features}'{did_you_mean(teacher, teachers)}"
                )
        if self.corpus is None:
            raise ValueError(f"{where} labels texts of the corpus, but the recipe has none; name its sources")

    def _check_checkpoint(self, name: str, published: publish_stage.PublishOptions) -> None:
        sources = [*(["pretrain"] if self.pretrains else []), *self.finetune]
        if published.source not in sources:
            raise ValueError(f"publish.{name}.source is '{published.source}'{did_you_mean(published.source, sources)}")
        tuned = self.finetune.get(published.source)
        if tuned and tuned.encoder == "frozen":
            raise ValueError(
                f"publish.{name}.source is '{published.source}', whose encoder is frozen: transformers has no class "
                "for such a model; fine-tune with encoder: tuned to publish it, or call kobert predict with the run's "
                "own model folder and --tokenizer"
            )
        if tuned and tuned.ngrams and (published.dtype != "float32" or published.onnx not in ("auto", False)):
            raise ValueError(
                f"publish.{name}: dtype and onnx are for encoders, but {published.source} is a classifier over n-grams;"
                " leave them out"
            )
        features = self.features_of(published)
        if published.onnx not in ("auto", False) and features and features.task.auto_class.endswith("MultipleChoice"):
            raise ValueError(
                f"publish.{name}.onnx: multiple-choice models cannot be exported to ONNX yet; leave it out"
            )
        # checked here, so that a licence conflict is reported before hours of training
        reason = self.licence_against_card() or refusal(self.training_files(published), published.license)
        if reason and not published.permission:
            raise ValueError(f"publish.{name}: {reason}")

    def models(self) -> list[tuple[str, str, str | None, str]]:
        """The models that are part of those trained: the option for its licence, its name, its licence as the recipe
        states it, and what it is used for."""
        vocabulary = self.tokenizer.base if self.tokenizer.keep == "all" else None
        rows = [
            ("checkpoint_license", self.checkpoint, self.checkpoint_license, "start"),
            ("pretrain.base_license", self.pretrain.base, self.pretrain.base_license, "start"),
            ("tokenizer.base_license", vocabulary, self.tokenizer.base_license, "vocabulary"),
        ]
        return [(option, model, licence, use) for option, model, licence, use in rows if model]

    def licence_against_card(self) -> str | None:
        """A sentence where the recipe states another licence of a model that it starts from than that model's card;
        None where it does not."""
        for option, model, licence, _ in self.models():
            on_card = stated_licence(model) if licence else None
            if on_card and licence and ids_of(on_card) != ids_of(licence):
                return (
                    f"{option} is {licence}, but the card of {model} states {on_card}; leave {option} out, or say why "
                    "in its option `permission`, which the card repeats"
                )
        return None

    def features_of(self, published: publish_stage.PublishOptions) -> FeaturesOptions | None:
        """The features that a published model was fine-tuned on, None for a pretrained model."""
        tuned = self.finetune.get(published.source)
        return self.features[tuned.features or published.source] if tuned else None

    def training_files(self, published: publish_stage.PublishOptions) -> list[dict[str, str]]:
        """The files that a published model was trained on: rows of `path`, `license` and `use`."""
        readers = self.corpus.sources if self.corpus else []
        learned = [self.finetune[name].features or name for name in self.fine_tunings_of(published.source)]
        makes = any(self.features[name].needs_corpus for name in learned)
        linear = published.source in self.finetune and self.finetune[published.source].ngrams is not None
        # the pretrained model plays no part in a classifier over n-grams
        uses = (["vocabulary"] if linear else ["pretrain"]) if self.pretrains else []
        labelled = any(self.finetune[name].distill for name in self.fine_tunings_of(published.source))
        uses += ["soft labels"] if labelled and not self.pretrains else []
        use = ", ".join([*uses, *(["make examples"] if makes else [])])
        rows = [source | {"use": use} for reader in readers if use for source in reader.provenance()]
        rows += [file_row(model, licence or stated_licence(model), use) for _, model, licence, use in self.models()]
        for name in reversed(self.fine_tunings_of(published.source)):
            features = self.features[self.finetune[name].features or name]
            for path in train_files(features):
                row = file_row(path, features.license_of(path), "fine-tune")
                if row not in rows:  # a teacher and its student may read the same file
                    rows.append(row)
        return rows

    def fine_tunings_of(self, source: str) -> list[str]:
        """The fine-tuning `source` and the `origins` of it, and of those; nothing for a pretrained model."""
        names = [source] if source in self.finetune else []
        for name in names:  # grows: a teacher may have had teachers
            names += [other for other in self.finetune[name].origins if other not in names]
        return names

    def evaluation_files(self, published: publish_stage.PublishOptions) -> list[dict[str, str]]:
        """The files that a published model was chosen and evaluated on: rows of `path`, `license` and `use`."""
        if (features := self.features_of(published)) is None:
            return []
        test = features.test if self.finetune[published.source].test else None
        files = {"choose the model": features.dev, "final scores": test}
        rows = [file_row(path, features.license_of(path), use) for use, path in files.items() if path]
        return rows + [file_row(name, licence, "choose options") for name, licence in published.consulted.items()]

    def controls(self, published: publish_stage.PublishOptions) -> Iterator[str]:
        """Names of the fine-tunings from scratch, and over n-grams, on the features of a published model: the baselines
        that show what pretraining, and the network, contribute."""
        features = self.features_of(published)
        for name, tuned in self.finetune.items():
            is_baseline = tuned.ngrams or (tuned.init == "scratch" and tuned.encoder == "tuned")
            is_baseline = is_baseline and name != published.source
            # `is`: sections with equal options still have different folders
            if is_baseline and self.features[tuned.features or name] is features:
                yield name

    def without_data_dir(self) -> dict[str, Any]:
        """The recipe as JSON values, without the path of the data on this machine, nor, where a checkpoint is
        pretrained further, defaults of options that it replaces."""
        values = {key: value for key, value in self.dump().items() if key != "data_dir"}
        if self.checkpoint and self.corpus:
            unused = (*OWN_TOKENIZER, *(() if self.needs_shards else ("shards",)))
            values = {key: value for key, value in values.items() if key not in unused}
            values["pretrain"] = self.continued_options() if self.continues else {"total_tokens": 0}
        return values

    def continued_options(self) -> dict[str, Any]:
        """The options of `pretrain`, without the architecture where the checkpoint or the base gives it."""
        options, is_given = self.pretrain.dump(), self.continues or self.pretrain.base is not None
        return {key: value for key, value in options.items() if not (is_given and key == "architecture")}

    def default_description(self, source: str) -> str:
        """The first sentence of the card of a model of `source` whose `publish` section has no description."""
        if source in self.finetune and self.finetune[source].ngrams:
            return "A classifier of Korean texts."
        if self.checkpoint:
            # the folders of this machine are nobody's business
            name = Path(self.checkpoint).name if Path(self.checkpoint).is_absolute() else self.checkpoint
            return f"A Korean language model, {'further pretrained' if self.continues else 'fine-tuned'} from {name}."
        base = self.pretrain.base
        origin = f"further pretrained from {Path(base).name}" if base else "pretrained from scratch"
        return f"A Korean language model over morphemes, {origin}."


def ids_of(licence: str) -> set[str]:
    """The ids of the licences that an entry names."""
    return set(map(identifier, split_names(licence)))


def validate_architecture(name: str, features: str, task: Task, architecture: Architecture) -> None:
    """Raise ValueError where the fine-tuning `name` needs a head or inputs that models of the architecture do not
    have."""
    if task.auto_class in architecture.unsupported_heads:
        raise ValueError(
            f"finetune.{name} uses the task {task.name}, for which {architecture.name} has no head "
            f"(transformers' {task.auto_class}); choose another pretrain.architecture"
        )
    if isinstance(task, SpanTask) and task.exact_match_feature and not architecture.token_types:
        raise ValueError(
            f"features.{features}.task.exact_match_feature needs an architecture with token types, and "
            f"{architecture.name} does not have them; leave it out, or choose another pretrain.architecture, such as "
            "bert"
        )
