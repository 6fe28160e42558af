"""Compounds that Kiwi knows with a space inside: names and terms of Wikidata, such as 미필적 고의.

Kiwi finds them without the space, too, and such a compound hides a user's word of the same letters (미필적고의), whose
own score then has no effect. So the compound gets that score as well.
"""

from functools import cache
from pathlib import Path

from kobert_pipeline.morphemes.segmenter import UserWord

FILE = "multi.dict"
"""The list in kiwipiepy's model: lines of form, tag, score and id, separated by tabs."""


# a run asks for its analyzer several times, and the list has 12 MB
@cache
def find_compounds(words: tuple[UserWord, ...]) -> tuple[UserWord, ...]:
    """The compounds that are spelled as one of the user's words but for spaces, each with the word's score. Raises
    ImportError where kiwipiepy is not installed."""
    import kiwipiepy_model

    scores = {form: score for form, _, score in words}
    compounds = list[UserWord]()
    with (Path(kiwipiepy_model.get_model_path()) / FILE).open(encoding="utf-8") as lines:
        for line in lines:
            form, *columns = line.split("\t")
            if " " in form and columns and (score := scores.get(form.replace(" ", ""))) is not None:
                compounds.append((form, columns[0], score))
    return tuple(compounds)
