"""A page of how texts are cut: morphemes with their tags, tokens, ids and offsets."""

from collections.abc import Sequence
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from kobert_pipeline.checkpoint.source import locate
from kobert_pipeline.inference.loading import load_tokenizer
from kobert_pipeline.visualize.page import label_of, page
from kobert_pipeline.visualize.tokens import Token, Tokens

KINDS = {"N": "noun", "V": "predicate", "J": "particle", "E": "ending"}
"""{first letter of a tag in the Sejong tag set, which analyzers of Korean use: kind of morpheme}."""
OTHER = "other"
LEGEND = {"noun": "noun", "predicate": "verb or adjective", "particle": "particle", "ending": "ending", OTHER: "other"}
COLUMNS = ("text", "morpheme", "tag", "token", "id", "start", "end")
TAG_COLUMNS = ("morpheme", "tag")
NUMBER_COLUMNS = ("id", "start", "end")


def tokenization_of(folder: Path, texts: Sequence[str]) -> str:
    """The page of texts, cut by the tokenizer in a folder or on the Hub."""
    return tokenization_page(label_of(folder), load_tokenizer(locate(str(folder))), texts)


def tokenization_page(name: str, tokenizer: Any, texts: Sequence[str]) -> str:
    """The page of texts, each cut by the tokenizer of the checkpoint `name`."""
    tokenized = [Tokens.of(tokenizer, [text]) for text in texts]
    has_tags = any(token.tag for tokens in tokenized for token in tokens.tokens)
    body = [f"<h1>Tokens of {escape(name)}</h1>", *([_legend()] if has_tags else [])]
    body += [_section(tokens, tokenizer.unk_token_id, has_tags) for tokens in tokenized]
    return page(f"Tokens of {name}: {' / '.join(texts)}", "\n".join(body))


def _legend() -> str:
    marks = " ".join(f'<mark class="{kind}">{text}</mark>' for kind, text in LEGEND.items())
    return f'<p class="text">{marks} <mark class="{OTHER} unknown">unknown token</mark></p>'


def _section(tokens: Tokens, unknown: int | None, has_tags: bool) -> str:
    """One text: its characters, each token marked, and a table of its tokens."""
    names = [name for name in COLUMNS if has_tags or name not in TAG_COLUMNS]
    header = "".join(f'<th scope="col"{_alignment(name)}>{name}</th>' for name in names)
    rows = "\n".join(_row(token, names, unknown) for token in tokens.tokens)
    return f"""<p class="text" lang="ko">{_marked(tokens, unknown)}</p>
<p class="faint">Tokens: {len(tokens.tokens)}, characters: {len(tokens.texts[0])}</p>
<div class="scroll" tabindex="0" role="region" aria-label="Table of the tokens">
<table>
<thead><tr>{header}</tr></thead>
<tbody lang="ko">
{rows}
</tbody>
</table>
</div>"""


def _marked(tokens: Tokens, unknown: int | None) -> str:
    """The text in HTML, with a <mark> around the characters of each token. Tokens of the same characters, such as the
    bytes of one, share a mark."""
    text, parts, reached = tokens.texts[0], list[str](), 0
    inside = [token for token in tokens.tokens if token.side is not None]
    for (start, end), group in groupby(inside, key=lambda token: (token.start, token.end)):
        members = list(group)
        start = max(start, reached)  # the spans of restored forms overlap
        if start < end:
            detail = escape("; ".join(token.detail for token in members))
            mark = f'<mark class="{_kind(members[0], unknown)}" title="{detail}">{escape(text[start:end])}</mark>'
            parts += [escape(text[reached:start]), mark]
            reached = end
    return "".join([*parts, escape(text[reached:])])


def _row(token: Token, names: Sequence[str], unknown: int | None) -> str:
    span = ("", "") if token.side is None else (token.start, token.end)
    cells = (token.text, token.morpheme or "", token.tag or "", token.token, token.id, *span)
    values = {name: escape(str(cell)) for name, cell in zip(COLUMNS, cells, strict=True)}
    values["text"] = f'<span class="{_kind(token, unknown)}">{values["text"]}</span>'
    return f"<tr>{''.join(f'<td{_alignment(name)}>{values[name]}</td>' for name in names)}</tr>"


def _alignment(column: str) -> str:
    return ' class="number"' if column in NUMBER_COLUMNS else ""


def _kind(token: Token, unknown: int | None) -> str:
    """The classes of a token's mark. A token of several morphemes has the colour of the first."""
    kind = KINDS.get((token.tag or "")[:1], OTHER)
    return f"{kind} unknown" if token.id == unknown and token.side is not None else kind
