"""Noise in made questions: words are left out, and parts change places (after Lewis et al., *Unsupervised Question
Answering by Cloze Translation*, ACL 2019). People's questions have about half of their words in the sentence that
answers them, in an order of their own; made ones have nearly all, in its order, so that a model learns to trust both
(docs/results/questions.md)."""

import random
import re

ASKING = re.compile("누구|누가|누군|무엇|어디|어느|어떤|언제|몇|얼마|뭐|무슨|인물|이름|연도|사람|곳")
"""What says in a word what the question asks for."""
DETERMINERS = ("어느", "어떤", "몇", "무슨", "한", "그", "이")
"""Words that belong to the one after them."""
MOVED_SHARE = 0.6
"""How many of the questions have their parts in another order."""
PART_WORDS = (1, 2, 2, 3)
"""Words of a part that moves, from which a random one is chosen for each."""
FEWEST_WORDS = 4
"""Words of a question: none is left out where fewer would stay."""


def with_noise(question: str, share: float, rng: random.Random) -> str:
    """The question without about a `share` of its words, of most with its parts in another order. The predicate stays
    last, and what says what is asked for is never left out."""
    words = question.split()
    if rng.random() < MOVED_SHARE:
        words = moved(words, rng)
    last = len(words) - 1
    kept = [
        word
        for index, word in enumerate(words)
        if index == last or ASKING.search(word) or words[index - 1] in DETERMINERS or rng.random() >= share
    ]
    return " ".join(kept if len(kept) >= FEWEST_WORDS else words)


def moved(words: list[str], rng: random.Random) -> list[str]:
    """The words in parts of one to three, in a random order; the last word stays the last."""
    parts, start = list[list[str]](), 0
    while start < len(words) - 1:
        end = min(start + rng.choice(PART_WORDS), len(words) - 1)
        while end < len(words) - 1 and words[end - 1] in DETERMINERS:
            end += 1
        parts.append(words[start:end])
        start = end
    rng.shuffle(parts)
    return [word for part in parts for word in part] + words[-1:]
