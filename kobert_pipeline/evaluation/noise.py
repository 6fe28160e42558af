"""Noise of spacing and typing, in texts and in labelled examples.

Noise is a pure function of (text, rate, seed): a text gets the same noise in any file and on any machine. A higher rate
of the same seed contains the changes of a lower one.
"""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, NamedTuple

from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.evaluation import typos
from kobert_pipeline.evaluation.edited_text import EditedText
from kobert_pipeline.features.task import Example, Task

SPACE_RATES = (0.1, 0.25, 0.5, 0.75)
TYPO_RATES = (0.05, 0.1, 0.2)


def remove_spaces(text: str, rate: float, rng: Random) -> EditedText:
    """Remove all white space, whatever the rate."""
    return EditedText.of(("" if character.isspace() else character, "") for character in text)


def drop_spaces(text: str, rate: float, rng: Random) -> EditedText:
    """Remove each white-space character with probability `rate`."""
    return EditedText.of(("" if character.isspace() and rng.random() < rate else character, "") for character in text)


def insert_spaces(text: str, rate: float, rng: Random) -> EditedText:
    """Insert a space between any two adjacent letters or digits with probability `rate`."""
    parts = []
    # not strict: of an empty text the second is a space
    for character, following in zip(text, f"{text[1:]} ", strict=False):
        space = is_separable(character) and is_separable(following) and rng.random() < rate
        parts.append((character, " " if space else ""))
    return EditedText.of(parts)


def is_separable(character: str) -> bool:
    """Whether `character` is a letter or digit by itself; a conjoining jamo is part of the syllable around it."""
    # a space between conjoining jamo (of decomposed text) would not separate syllables but break one
    return character.isalnum() and not "\u1100" <= character <= "\u11ff"


class Kind(NamedTuple):
    """A kind of noise: its function, and the default rates."""

    add: Callable[[str, float, Random], EditedText]
    rates: tuple[float, ...]


KINDS = {
    "spaces-removed": Kind(remove_spaces, (1.0,)),
    "spaces-dropped": Kind(drop_spaces, SPACE_RATES),
    "spaces-inserted": Kind(insert_spaces, (0.05, 0.1, 0.2, 0.4)),
    "key-neighbour": Kind(typos.key_noise(typos.hit_neighbour), TYPO_RATES),
    "key-missed": Kind(typos.key_noise(typos.miss_key), TYPO_RATES),
    "key-doubled": Kind(typos.key_noise(typos.double_key), TYPO_RATES),
    "keys-swapped": Kind(typos.key_noise(typos.swap_keys), TYPO_RATES),
    "final-mistaken": Kind(typos.mistake_finals, TYPO_RATES),
}
ALL = "all"


class Noise(NamedTuple):
    """A noise condition. The rate is per white-space character (dropped), per gap between letters (inserted), per
    syllable (keys), or per final consonant."""

    kind: str
    rate: float
    seed: int

    def __call__(self, text: str) -> EditedText:
        """`text` with this noise."""
        # seeded by the text, not by its place in the file; the rate is left out, so that rates share their draws
        # bytes, since `Random` cannot encode a text with lone surrogates
        rng = Random(f"{self.kind}\n{self.seed}\n{text}".encode("utf-8", "surrogatepass"))
        return KINDS[self.kind].add(text, self.rate, rng)


def conditions(words: list[str], seed: int) -> list[Noise]:
    """The noise conditions named by `KIND`, `KIND=RATE,RATE` or `all`, each once. Raises UserError for other words."""
    named = (pair for word in words for pair in _parse(word))
    return list(dict.fromkeys(Noise(kind, rate, seed) for kind, rates in named for rate in rates))


def _parse(word: str) -> list[tuple[str, tuple[float, ...]]]:
    """[(kind, rates)] of one word."""
    name, equals, values = word.partition("=")
    if word == ALL:
        return [(name, kind.rates) for name, kind in KINDS.items()]
    if name not in KINDS:
        raise UserError(f"--noise {word}: there is no noise {name!r}{did_you_mean(name, [*KINDS, ALL])}")
    if not equals:
        return [(name, KINDS[name].rates)]
    if name == "spaces-removed":
        raise UserError(f"--noise {word}: {name} takes no rate, since it removes all; use spaces-dropped for a share")
    try:
        rates = tuple(float(rate) for rate in values.split(","))
    except ValueError:
        rates = ()
    if not rates or not all(0 <= rate <= 1 for rate in rates):
        raise UserError(f"--noise {word}: rates are numbers from 0 to 1, separated by commas, as in {name}=0.05,0.1")
    return [(name, rates)]


def noisy_fields(task: Task, names: list[str]) -> tuple[str, ...]:
    """The text fields of the task's examples that get noise: those in `names`, or all. Raises UserError for other names
    and for tasks of another kind."""
    if not (known := task.noisy_inputs):
        raise UserError(
            f"noise is known for tasks that label texts or answer questions; {task.name} is neither, leave --noise out"
        )
    for name in names:
        if name not in known:
            raise UserError(f"--noise-in {name}: the task {task.name} has the texts {', '.join(known)}")
    return tuple(dict.fromkeys(names)) or known


def add_noise(examples: Iterable[Example], fields: tuple[str, ...], noise: Noise) -> list[Example]:
    """The examples with noise in the text `fields`. An answer becomes what its characters became in the noisy
    context."""
    noisy = []
    for example in examples:
        edits = {name: noise(example[name]) for name in fields if name in example}
        changed: dict[str, Any] = {name: edit.text for name, edit in edits.items()}
        if "context" in edits:
            # the noisy text is what a model reads, so the answer to extract is spelled as it is there
            spans = [edits["context"].span(start, start + len(text)) for text, start in example["answers"]]
            changed["answers"] = [[changed["context"][start:end], start] for start, end in spans]
        noisy.append({**example, **changed})
    return noisy
