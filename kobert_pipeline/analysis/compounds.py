"""Compounds that Kiwi knows with a space inside: names and terms of Wikidata, such as 미필적 고의.

Kiwi finds them without the space, too, and such a compound hides a user's word of the same letters (미필적고의), whose
own score then has no effect. So the compound gets that score as well.
"""

from collections.abc import Iterator
from pathlib import Path

from kobert_pipeline.morphemes.segmenter import UserWord

FILE = "multi.dict"
"""The list in kiwipiepy's model: lines of form, tag, score and id, separated by tabs."""


def hidden_by(words: list[UserWord]) -> Iterator[UserWord]:
    """The compounds that are spelled as one of the user's words but for spaces, with its score."""
    import kiwipiepy_model

    scores = {form: score for form, _, score in words}
    with (Path(kiwipiepy_model.get_model_path()) / FILE).open(encoding="utf-8") as lines:
        for line in lines:
            form, *columns = line.split("\t")
            if " " in form and columns and (score := scores.get(form.replace(" ", ""))) is not None:
                yield form, columns[0], score
