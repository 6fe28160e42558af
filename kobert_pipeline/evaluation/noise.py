"""Noise as a pure function of (text, rate, seed): the same text is spoilt alike wherever it stands, on every machine. A
higher rate of the same seed does what a lower one did, and more."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from kobert_pipeline.errors import UserError, did_you_mean
from kobert_pipeline.evaluation import spaces, typos
from kobert_pipeline.evaluation.edited_text import EditedText

SPACE_RATES = (0.1, 0.25, 0.5, 0.75)
TYPO_RATES = (0.05, 0.1, 0.2)


class Kind(NamedTuple):
    """A kind of noise: what it does, and the rates that are tried unless others are asked for."""

    noisy: Callable[[str, float, Random], EditedText]
    rates: tuple[float, ...]


KINDS = {
    "spaces-removed": Kind(spaces.removed, (1.0,)),
    "spaces-dropped": Kind(spaces.dropped, SPACE_RATES),
    "spaces-inserted": Kind(spaces.inserted, (0.05, 0.1, 0.2, 0.4)),
    "key-neighbour": Kind(typos.slips(typos.neighbour), TYPO_RATES),
    "key-missed": Kind(typos.slips(typos.missed), TYPO_RATES),
    "key-doubled": Kind(typos.slips(typos.doubled), TYPO_RATES),
    "keys-swapped": Kind(typos.slips(typos.swapped), TYPO_RATES),
    "final-mistaken": Kind(typos.finals, TYPO_RATES),
}
ALL = "all"


class Noise(NamedTuple):
    """One condition. Rates are per white space (dropped), per gap between letters (inserted), per syllable (keys), per
    final consonant."""

    kind: str
    rate: float
    seed: int

    def __call__(self, text: str) -> EditedText:
        """`text` with this noise."""
        rng = Random(f"{self.kind}\n{self.seed}\n{text}".encode("utf-8", "surrogatepass"))
        return KINDS[self.kind].noisy(text, self.rate, rng)


def conditions(wanted: list[str], seed: int) -> list[Noise]:
    """The noises that `KIND`, `KIND=RATE,RATE` or `all` name, each once. Raises UserError for other words."""
    return list(
        dict.fromkeys(Noise(kind, rate, seed) for one in wanted for kind, rates in _named(one) for rate in rates)
    )


def _named(wanted: str) -> list[tuple[str, tuple[float, ...]]]:
    name, equals, given = wanted.partition("=")
    if wanted == ALL:
        return [(kind, found.rates) for kind, found in KINDS.items()]
    if name not in KINDS:
        raise UserError(f"--noise {wanted}: there is no noise {name!r}{did_you_mean(name, [*KINDS, ALL])}")
    if not equals:
        return [(name, KINDS[name].rates)]
    if name == "spaces-removed":
        raise UserError(f"--noise {wanted}: {name} takes no rate, since it removes all; spaces-dropped removes a share")
    try:
        rates = tuple(float(rate) for rate in given.split(","))
    except ValueError:
        rates = ()
    if not rates or not all(0 <= rate <= 1 for rate in rates):
        raise UserError(f"--noise {wanted}: rates are numbers from 0 to 1, parted by commas, as in {name}=0.05,0.1")
    return [(name, rates)]
