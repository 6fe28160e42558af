"""Tokens with BIO tags -> typed spans of characters (Ramshaw and Marcus 1995): B begins a span, I continues it, O is
outside. An I that does not continue a span begins one, as in `conlleval`, seqeval and the pipelines of `transformers`,
so every sequence of tags is valid.
"""

import re
from collections.abc import Callable, Collection, Iterable

from kobert_pipeline.errors import UserError

OUTSIDE = ("O", "-", "_")
"""How data sets write the tag of a token outside all spans."""
PREFIXED = re.compile(r"([BI](?=[-_])|[ESLU](?=-))[-_](.+)", re.DOTALL)
SUFFIXED = re.compile(r"(.+)[-_]([BIESLU])", re.DOTALL)
TYPE = re.compile(r"[^\W\d_][^\s=]*")
"""A type without B or I; it begins with a letter, so that numbers of classes are none."""
TAG_SET = tuple(
    re.compile(pattern, re.DOTALL | re.IGNORECASE)
    for pattern in (
        r"(?P<side>[BIESLU])[-_:.](?P<type>.+)", r"(?P<type>.+)[-_:.](?P<side>[BIESLU])",
        "(?P<side>[BIESLU])(?P<type>)",
    )
)  # fmt: skip
"""Forms of tags, B-X, X-B, or B alone (of models, not of files); all tags of a file or model have the same form."""
ONLY_TYPE = "ENTITY"
"""What the spans of a model without types are called."""
NO_ENTITY = {"O", "UNK", "PAD", "X", "[UNK]", "[PAD]", "[CLS]", "[SEP]", "<PAD>", "<UNK>"}
"""What models call an output that is no tag of an entity; X is for the later tokens of a word."""
MARKED = re.compile(r"<([^<>]+):[A-Z]{2}>")
"""An entity in a text that marks its entities, as KLUE's `sentence` does."""

Tag = tuple[bool, str | None]
"""(whether a span begins here even after one of the same type, type); None as the type is outside, "" means the type of
the token before."""


def parse_tag(tag: str) -> Tag:
    """Parse `B-PER`, `I-PER`, the same in IOBES and BILOU (S and U mean B, E and L mean I), `B_PER` and a lone `I`
    (kor_ner), `PER_B` (Naver), `PER-B` (KoBERT-NER) and O. Any other tag is a type, whose equal neighbours are one
    span."""
    if tag in OUTSIDE:
        return False, None
    # in IOBES and BILOU an I never follows E, L, S or U, so the end of a span needs no mark of its own here
    if match := PREFIXED.fullmatch(tag):
        return match[1] in "BSU", match[2]
    if match := SUFFIXED.fullmatch(tag):
        return match[2] in "BSU", match[1]
    return False, "" if tag == "I" else tag


def tag_parser(tags: Collection[str], what: str, strict: bool = False) -> Callable[[str], Tag]:
    """How each of the `tags` of a file is parsed, by all of them: where one begins a span by B, all others are BIO; if
    all agree also with another mark between side and type, and in any case; else each is a type (NNG, VV-I). The
    function raises UserError for a tag of another form. Raises UserError, which says `what` holds them, where they are
    no tags at all; `strict`: also for types without O."""
    marked = [tag for tag in tags if tag not in OUTSIDE]
    affixed = [tag for tag in marked if parse_tag(tag)[1] != tag]
    begins = any(PREFIXED.fullmatch(tag) or parse_tag(tag)[0] for tag in affixed)
    if begins or (affixed and len(affixed) == len(marked)):
        return _parse_affixed
    for pattern in TAG_SET[:2]:
        matches = {tag: pattern.fullmatch(tag) for tag in marked if tag != "o"}
        sides = {match["side"].upper() for match in matches.values() if match}
        if matches and all(matches.values()) and sides & {"B", "S", "U"}:
            return lambda tag: _by_match(matches.get(tag))
    wrong = [tag for tag in marked if not TYPE.fullmatch(tag) or tag == "B"]
    if marked and (wrong or (strict and "O" not in tags)):
        shown = ", ".join(f"{tag!r:.30}" for tag in dict.fromkeys([*wrong, *marked]))
        raise UserError(
            f"{what} holds {shown:.80}, which are no tags; B-X, I-X and O, or X and O, were expected (labels of whole "
            "texts are for the task classification)"
        )
    return lambda tag: (False, None if tag in OUTSIDE else tag)


def _by_match(match: re.Match[str] | None) -> Tag:
    return (match["side"].upper() in "BSU", match["type"] or ONLY_TYPE) if match else (False, None)


def split_tags(text: str) -> list[str]:
    """The tags in a text, separated by white space or, where it has none, by commas."""
    tags = text.split()
    return tags if len(tags) > 1 else [tag.strip() for tag in text.split(",")] if "," in text else tags


def _parse_affixed(tag: str) -> Tag:
    begins, kind = parse_tag(tag)
    if kind == tag:
        raise UserError(f"{tag!r:.40} is no tag as the others of the file are; B-X, I-X or O was expected")
    return begins, kind


def parse_tag_set(names: list[str]) -> list[Tag]:
    """The tags that the outputs of a model stand for, in any order: as for a file, but where all agree also with any
    mark between side and type, and in any case. Outputs for special tokens are outside. Raises UserError for names
    that are no tags."""
    for pattern in TAG_SET:
        matches = [pattern.fullmatch(name) for name in names]
        others = [name.upper() for name, match in zip(names, matches, strict=True) if not match]
        if "O" in others and len(others) < len(names) and NO_ENTITY.issuperset(others):
            return [_by_match(match) for match in matches]
    parse = tag_parser(names, "the checkpoint's id2label", strict=True)
    return [parse(name) for name in names]


def spans(tags: Iterable[Tag]) -> list[tuple[int, int, str]]:
    """(first, last + 1, type) of every span, in tokens. Raises UserError for an I without a type after none."""
    result: list[tuple[int, int, str]] = []
    previous: str | None = None
    # B-X I-X I-X O B-X -> (0, 3, X), (4, 5, X)
    for index, (begins, kind) in enumerate(tags):
        if kind == "":
            if previous is None:
                raise UserError("a tag I without a type follows no entity; write B-X")
            kind = previous
        if kind is not None and (begins or kind != previous):
            result.append((index, index + 1, kind))
        elif kind is not None:
            result[-1] = (result[-1][0], index + 1, kind)
        previous = kind
    return result


def text_of_tokens(tokens: list[str], separator: str, text: str | None = None) -> tuple[str, list[tuple[int, int]]]:
    """The text of tokens and the characters of each: the given text where they are its tokens, or they themselves,
    joined by the separator. Raises UserError where they are tokens of neither that text nor of it with entities marked
    as in KLUE (`<ENTITY:TYPE>`)."""
    if text is not None:
        for candidate in (text, MARKED.sub(r"\1", text)):
            if places := find_tokens(candidate, tokens):
                return candidate, places
        raise UserError(
            f"its tokens ({separator.join(tokens)!r:.40}) are not those of its text ({text!r:.40}); name the tokens by "
            "the option tokens of the task tagging to read them alone"
        )
    places, begin = [], 0
    for token in tokens:
        places.append((begin, begin + len(token)))
        begin += len(token) + len(separator)
    return separator.join(tokens), places


def find_tokens(text: str, tokens: list[str]) -> list[tuple[int, int]] | None:
    """The characters of each token in a text; None where its characters, white space aside, are not theirs. A token _
    is a blank where the text has none."""
    characters = [index for index, character in enumerate(text) if not character.isspace()]
    inside = ["".join(token.split()) for token in tokens]
    if "".join(inside) != "".join(text.split()):
        inside = ["" if token == "_" else token for token in inside]
    if "".join(inside) != "".join(text.split()):
        return None
    places, done = [], 0
    for token in inside:
        # of a token of white space, the empty span before what follows
        begin = characters[done] if done < len(characters) else len(text)
        done += len(token)
        places.append((begin, characters[done - 1] + 1 if token else begin))
    return places


def tagged_spans(places: list[tuple[int, int]], tags: Iterable[Tag]) -> list[tuple[int, int, str]]:
    """(first character, last + 1, type) of every span of tokens with these characters."""
    return [(places[first][0], max(end for _, end in places[first:stop]), kind) for first, stop, kind in spans(tags)]
