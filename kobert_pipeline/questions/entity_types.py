"""What the names of a corpus are names of, learned from the corpus itself: 누구 (who) and 어디 (where) must ask for
people and places, but a name alone does not say what it names.

The first sentence of an article says it (앨런 튜링은 영국의 수학자이다; after Hearst, COLING 1992), and so do a noun
before a name (수학자 앨런 튜링), years of birth after it, and 에서, which follows places.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

from kobert_pipeline.morphemes.runs import TaggedMorpheme
from kobert_pipeline.questions.answer_candidates import after_brackets, candidates_in_sentence
from kobert_pipeline.questions.cloze import topic_indices
from kobert_pipeline.questions.hypernyms import A_PERSON, A_PLACE, NO_HYPERNYMS, entity_type

ARTICLE = 3
"""What an article about a name counts, compared with a mention."""
MENTIONS = 2
"""How often a name must be mentioned as something where it has no article: once may be a slip of the analyzer."""
PEOPLE_PER_PLACE = 4
"""Up to how many times as often nouns for people may stand before a name that 에서 follows, for it to be a place."""


class EntityTypes:
    """Counts of the nouns by which sentences say what each name is."""

    def __init__(self) -> None:
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add_article(self, text: str, sentence: Sequence[TaggedMorpheme]) -> None:
        """Counts what the first sentence of a document says about its topic."""
        topic = topic_indices(sentence)
        if not topic:
            return
        # up to the first brackets, which `topic` leaves out: the name is cut from the text as a whole
        end = next((index for index in topic if index + 1 not in topic), topic[-1])
        name = text[sentence[0].start : sentence[end].end]
        if _has_years(sentence, end + 1):
            self._counts[name][A_PERSON] += ARTICLE
        copula = next((index for index in range(topic[-1] + 2, len(sentence)) if _is_copula(sentence, index)), 0)
        noun = sentence[copula - 1]
        if copula and noun.tag == "NNG" and noun.form not in NO_HYPERNYMS:
            # 배우 says more than 사람, which years of birth alone show
            self._counts[name][noun.form] += ARTICLE + (entity_type(noun.form) == "person")

    def add_mentions(self, text: str, sentence: Sequence[TaggedMorpheme]) -> None:
        """Counts what a sentence says about the names in it."""
        for candidate in candidates_in_sentence(text, sentence):
            if candidate.type != "name":
                continue
            name, noun = text[candidate.start : candidate.end], candidate.hypernym
            if entity_type(noun) and not name.endswith(noun):
                self._counts[name][noun] += 1
            elif sentence[candidate.after].form.startswith("에서"):
                # 에서 follows wars and games, too, which often say in their names what they are
                self._counts[name][A_PLACE] += not noun or entity_type(noun) == "place"

    def nouns(self) -> dict[str, str]:
        """{name: a noun for what it is}, 사람 or 곳 where no better one is known."""
        best = {name: _of_place(counts).most_common(1)[0] for name, counts in self._counts.items()}
        return {name: noun for name, (noun, count) in best.items() if count >= MENTIONS}


def _of_place(counts: Counter[str]) -> Counter[str]:
    """The counts without nouns for people where 에서 follows a name often enough: 대한민국 대통령."""
    people = {noun: count for noun, count in counts.items() if entity_type(noun) == "person"}
    is_place = counts[A_PLACE] >= max(MENTIONS, sum(people.values()) / PEOPLE_PER_PLACE)
    return counts - Counter(people) if is_place else counts


def _is_copula(sentence: Sequence[TaggedMorpheme], index: int) -> bool:
    """Whether the copula is at a morpheme, and does not end a relative clause, as in 배우인 and 가수였던."""
    ending = next((morpheme.tag for morpheme in sentence[index + 1 :] if morpheme.tag != "EP"), "")
    return sentence[index].tag == "VCP" and ending != "ETM"


def _has_years(sentence: Sequence[TaggedMorpheme], index: int) -> bool:
    """Whether round brackets at `index` have a year and a ~, as after a person's name: (1912년 ~ 1954년)."""
    forms = [morpheme.form for morpheme in sentence[index : after_brackets(sentence, index)]]
    return "년" in forms and "~" in forms
