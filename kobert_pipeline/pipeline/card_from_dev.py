"""What a model card takes from the dev split: an example of the task's own domain that may be published, and the scores
with missing spaces and typing errors, which the texts of users have and evaluation sets often do not."""

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from kobert_pipeline.corpus.pii import Kind, redact
from kobert_pipeline.errors import UserError
from kobert_pipeline.evaluation.noise import conditions, noisy_fields
from kobert_pipeline.features.options import FeaturesOptions, train_files
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json_lines
from kobert_pipeline.publish.card_facts import CardFacts
from kobert_pipeline.publish.licences import NOT_STATED, allows_quoting
from kobert_pipeline.tokenizer.plain import PLAIN, own_tokenizer
from kobert_pipeline.training.weight_files import NGRAMS

FIELDS = ("text", "text_pair", "question", "context", "choices")
"""The parts of an example that a model reads; its label is not shown."""
LENGTHS = range(8, 301)
"""Characters of a text that is shown: neither a fragment nor a page."""
NOISE = ["spaces-removed", "key-neighbour=0.05,0.1"]
MOST, FEWEST = 1000, 100
"""Dev examples that are read, and how many there must be: scores of fewer say nothing."""


def with_dev(facts: CardFacts, options: FeaturesOptions, features: Path, model: Path, tokenizer: Path) -> CardFacts:
    """The facts, with what the dev split in the folder `features` adds; it was made with these options. The folder
    `tokenizer` holds the tokenizer that the model is evaluated and published with."""
    model_tokenizer = own_tokenizer(tokenizer, options.plain_share)
    if (model / NGRAMS).is_file() and (tokenizer / PLAIN).is_dir():
        model_tokenizer = tokenizer / PLAIN  # tokens spell a text alike with and without the analyzer
    return replace(
        facts,
        plain_is_own=model_tokenizer != tokenizer,
        plain_share=options.plain_share,
        example=card_example(Task.of_features(features), dev_licence(options), features),
        noise=noise_on_dev(model, model_tokenizer, features, options.dev),
    )


def card_example(task: Task, licence: str, features: Path) -> dict[str, Any]:
    """The task's own sample, or, for tasks on files of any domain, the first fitting example of dev where the licence
    of the data allows to show it; {} where it does not, or none fits."""
    dev = features / "dev" / "examples.jsonl"
    if task.card_sample() or not allows_quoting(licence) or not dev.is_file():
        return task.card_sample()
    candidates = ({name: example[name] for name in FIELDS if name in example} for example in read_json_lines(dev))
    return next((example for example in candidates if is_fit(example)), {})


def dev_licence(options: FeaturesOptions) -> str:
    """The licences of the files that the dev examples are from, separated by `/`."""
    names = [options.dev] if options.dev else train_files(options)
    if isinstance(options.license, dict):
        return " / ".join(options.license_of(name) or NOT_STATED for name in names)
    return options.license or NOT_STATED


def is_fit(example: dict[str, Any]) -> bool:
    """Whether all texts of an example are of a fitting length, in one printable line, and without personal data."""
    texts = [text for value in example.values() for text in (value if isinstance(value, list) else [value])]
    return all(len(text) in LENGTHS and text.isprintable() and redact(text, get_args(Kind)) == text for text in texts)


def noise_on_dev(model: Path, tokenizer: Path, features: Path, file: str | None) -> dict[str, Any]:
    """What `evaluate.under_noise` gives for up to `MOST` dev examples of the `features`; {} for a task whose texts get
    no noise, and where dev is too small. `file` is dev's, None where dev is a part of train. The analyzer must be
    installed."""
    from kobert_pipeline.evaluation.evaluate import sampled, under_noise
    from kobert_pipeline.inference.checkpoint import Checkpoint

    task = Task.of_features(features)
    try:
        fields = noisy_fields(task, [])
    except UserError:
        return {}
    examples = list(read_json_lines(features / "dev" / "examples.jsonl"))
    if len(examples) < FEWEST:
        return {}
    checkpoint = Checkpoint.load(model, tokenizer).for_task()
    clean = checkpoint.predict_examples([examples[index] for index in sampled(examples, MOST)])
    name = Path(file).name if file else "dev, a part of train"
    return {"of": name, **under_noise(checkpoint, clean, conditions(NOISE, 1), fields, None, lambda line: None)}
