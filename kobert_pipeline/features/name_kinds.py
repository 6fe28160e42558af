"""What the names of a corpus are names of, learned from the corpus itself: 누구 (who) and 어디 (where) must ask for
people and places, but a name alone does not say what it names.

The first sentence of an article says it (앨런 튜링은 영국의 수학자이다; after Hearst, COLING 1992), and so do a noun
before a name (수학자 앨런 튜링), years of birth after it, and 에서, which follows places.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from kobert_pipeline.features.candidates import Tagged, after_brackets, answers
from kobert_pipeline.features.cloze import topic_places
from kobert_pipeline.features.hypernyms import A_PERSON, A_PLACE, NO_HYPERNYMS, kind_of

ARTICLE = 3
"""What an article about a name counts, compared with a mention."""
MENTIONS = 2
"""How often a name must be mentioned as something where it has no article: once may be a slip of the analyzer."""


class NameKinds:
    """Counts of what the sentences say about each name."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add_article(self, text: str, sentence: Sequence[Tagged]) -> None:
        """Counts what the first sentence of a document says about its topic."""
        places = topic_places(sentence)
        if not places:
            return
        end = next((place for place in places if place + 1 not in places), places[-1])
        name = text[sentence[0].start : sentence[end].end]
        if _has_years(sentence, end + 1):
            self._counts[name][A_PERSON] += ARTICLE
        copula = next((n for n in range(places[-1] + 2, len(sentence)) if _is_copula(sentence, n)), 0)
        noun = sentence[copula - 1]
        if copula and noun.tag == "NNG" and noun.form not in NO_HYPERNYMS:
            # 배우 says more than 사람, which years of birth alone show
            self._counts[name][noun.form] += ARTICLE + (kind_of(noun.form) == "person")

    def add_mentions(self, text: str, sentence: Sequence[Tagged]) -> None:
        """Counts what a sentence says about the names in it."""
        for answer in answers(text, sentence):
            name = text[answer.start : answer.end]
            if answer.kind == "name" and kind_of(answer.hypernym) and not name.endswith(answer.hypernym):
                self._counts[name][answer.hypernym] += 1
            elif answer.kind == "name" and sentence[answer.after].form.startswith("에서"):
                # 에서 follows wars and games, too, which often say in their names what they are
                self._counts[name][A_PLACE] += not answer.hypernym or kind_of(answer.hypernym) == "place"

    def nouns(self) -> dict[str, str]:
        """{name: a noun for what it is}, 사람 or 곳 where no better one is known."""
        found = {}
        for name, counts in self._counts.items():
            noun, count = counts.most_common(1)[0]
            if count >= MENTIONS:
                found[name] = noun
        return found


def _is_copula(sentence: Sequence[Tagged], number: int) -> bool:
    """Whether the copula is at a morpheme, and is not that of a relative clause: 배우인, 가수였던."""
    ending = next((morpheme.tag for morpheme in sentence[number + 1 :] if morpheme.tag != "EP"), "")
    return sentence[number].tag == "VCP" and ending != "ETM"


def _has_years(sentence: Sequence[Tagged], number: int) -> bool:
    """Whether round brackets at `number` have a year and a ~, as after a person's name: (1912년 ~ 1954년)."""
    forms = [morpheme.form for morpheme in sentence[number : after_brackets(sentence, number)]]
    return "년" in forms and "~" in forms
