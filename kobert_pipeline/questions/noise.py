"""Noise in made questions: words are left out, and parts change places (after Lewis et al., *Unsupervised Question
Answering by Cloze Translation*, ACL 2019). People's questions have about half of their words in the sentence that
answers them, in an order of their own; made ones have nearly all, in its order, so that a model learns to trust both
(docs/results/questions.md)."""

import random
import re

ASKING = re.compile(
    "누구|누가|누굴|누군|무엇|무슨|뭐|뭘|어디|어느|어떤|어떻|어찌|언제|왜|몇|얼마|인물|이름|연도|사람|곳"
)
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
    """The question without some words, each left out with the probability `share`, and mostly with its parts in another
    order. The predicate stays last, and what says what is asked for is never left out."""
    words = question.split()
    if rng.random() < MOVED_SHARE:
        words = moved(words, rng)
    last = len(words) - 1
    kept = [
        word
        for index, (before, word) in enumerate(zip(["", *words], words, strict=False))
        if index == last or ASKING.search(word) or before in DETERMINERS or rng.random() >= share
    ]
    return " ".join(kept if len(kept) >= FEWEST_WORDS else words)


def moved(words: list[str], rng: random.Random) -> list[str]:
    """The words in parts of one to three, in a random order; the last word stays the last, after its determiners."""
    tail = max(len(words) - 1, 0)
    while tail and words[tail - 1] in DETERMINERS:
        tail -= 1
    parts, start = list[list[str]](), 0
    while start < tail:
        end = min(start + rng.choice(PART_WORDS), tail)
        while words[end - 1] in DETERMINERS:  # the word at `tail - 1` is none
            end += 1
        parts.append(words[start:end])
        start = end
    rng.shuffle(parts)
    return [word for part in parts for word in part] + words[tail:]
