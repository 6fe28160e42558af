"""The command `kobert similar`. torch and transformers are imported only once the arguments are known to be valid."""

import json
from bisect import bisect_right
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kobert_pipeline.cli.arguments import AsJson, Folder, TokenizerName
from kobert_pipeline.cli.embed import Column, Layers, Weights, parse_layers
from kobert_pipeline.cli.formatting import print_json, print_table
from kobert_pipeline.cli.input_lines import file_batches, refuse_missing, refuse_tables
from kobert_pipeline.errors import UserError

if TYPE_CHECKING:
    import numpy as np

    from kobert_pipeline.inference.similar import Scores

CHARACTERS_SHOWN = 200
"""Of a text in the table; --json prints the whole text."""
Queries = Annotated[list[str] | None, typer.Argument(metavar="[QUERY]...", help="Texts to find similar ones for.")]
IN = "A file of texts to search in, one per line, or with --column a table; - reads standard input. Repeatable."
In = Annotated[list[str] | None, typer.Option("--in", metavar="FILE", help=IN)]
GOLD = "Evaluate: a file in SQuAD form, whose questions must find their own context among all contexts."
Gold = Annotated[Path | None, typer.Option(metavar="FILE.json", help=GOLD)]
BY = "How to rank: a pooling (as kobert embed), bm25, hybrid. Repeatable; default: the pooling of training, or mean."
By = Annotated[list[str] | None, typer.Option(metavar="METHOD", help=BY)]
TopK = Annotated[int, typer.Option(min=1, help="Texts shown per query.")]
BM25_WEIGHT = "Share of BM25 in hybrid, from 0 to 1."
Bm25Weight = Annotated[float, typer.Option(min=0, max=1, help=BM25_WEIGHT)]
VECTORS = "The texts' vectors, as kobert embed --out FILE.npy wrote them; searched in the file, not embedded again."
Vectors = Annotated[Path | None, typer.Option(metavar="FILE.npy", help=VECTORS)]
HYBRID = "The pooling whose cosines hybrid adds to BM25; default: that of training, or mean."
HybridPooling = Annotated[str | None, typer.Option(metavar="POOLING", help=HYBRID)]


def similar(
    checkpoint: Folder,
    queries: Queries = None,
    candidates: In = None,
    column: Column = None,
    gold: Gold = None,
    by: By = None,
    top_k: TopK = 5,
    layers: Layers = "-1",
    weights: Weights = None,
    bm25_weight: Bm25Weight = 0.5,
    hybrid_pooling: HybridPooling = None,
    vectors: Vectors = None,
    tokenizer: TokenizerName = None,
    as_json: AsJson = False,
) -> None:
    """Rank texts by their similarity to a query, by vectors, BM25 or both; or measure how well that works (--gold).

    Example: kobert similar runs/quickstart/publish/nsmc "정말 재밌다" --in reviews.txt --by mean --by bm25
    """
    _refuse_conflicts(queries, candidates, column, gold, by or [], hybrid_pooling, vectors)
    numbers = parse_layers(layers)

    from kobert_pipeline.inference.similar import contexts, embedders, rankers, refuse_unknown, top, top_of_stored

    refuse_unknown(by or [], hybrid_pooling)
    searched = Candidates(candidates or [], column)
    texts, asked, right = contexts(gold) if gold else (searched.texts, queries or [], [])
    embedder_of = embedders(checkpoint, tokenizer, numbers, weights)
    if vectors:
        ranked = top_of_stored(vectors, searched.lines, searched.numbers, embedder_of, by, asked, top_k)
    else:
        own = embedder_of(None).pooling if not by or "hybrid" in by else ""  # that of the model's training
        found = rankers(texts, list(dict.fromkeys(by or [own])), embedder_of, hybrid_pooling or own, bm25_weight)
        if gold:
            _print_evaluation(found, asked, right, len(texts), as_json)
            return
        ranked = {method: top(scores, asked, top_k) for method, scores in found.items()}
    _print_ranking(ranked, asked, searched, as_json)


def _refuse_conflicts(
    queries: list[str] | None,
    candidates: list[str] | None,
    column: str | None,
    gold: Path | None,
    by: list[str],
    hybrid_pooling: str | None,
    vectors: Path | None,
) -> None:
    if bool(gold) == bool(queries and candidates) or (gold and (queries or candidates or column or vectors)):
        raise UserError("give a QUERY and --in FILE with the texts to search in, or --gold FILE.json without these")
    if vectors and (len(by) > 1 or {"bm25", "hybrid"} & set(by) or hybrid_pooling):
        raise UserError("--vectors are ranked by one pooling; give --by once, without bm25 and hybrid, or leave it out")
    refuse_missing([*(candidates or []), *(str(path) for path in (gold, vectors) if path)])
    refuse_tables(candidates or [], column)


def _print_evaluation(
    found: dict[str, "Scores"], queries: list[str], right: list[int], texts: int, as_json: bool
) -> None:
    import numpy as np

    from kobert_pipeline.inference.similar import retrieval_scores

    gold = np.array(right)
    rows = {
        method: {name: round(value, 2) for name, value in retrieval_scores(scores, queries, gold).items()}
        for method, scores in found.items()
    }
    if as_json:
        print_json({"queries": len(queries), "texts": texts, "methods": rows})
        return
    names = list(next(iter(rows.values())))
    print(f"{len(queries):,} queries, {texts:,} texts; in percent:")
    print_table(["method", *names], [[method, *(f"{row[name]:.2f}" for name in names)] for method, row in rows.items()])


class Candidates:
    """The `texts` of all files, and where each is from: its number among the `lines`, of which some may be blank."""

    def __init__(self, names: list[str], column: str | None) -> None:
        from kobert_pipeline.inference.similar import not_blank

        self.lines: list[str] = []
        self.rows: list[dict[str, Any]] = []  # of lines there are none: their place is their number
        self.names, self.ends, self.unit = names, list[int](), "row" if column else "line"
        for name in names:
            if column is None:
                self.lines += chain.from_iterable(file_batches([name]))
            else:
                from kobert_pipeline.inference.table_fields import column_texts

                for text, row_names in column_texts(Path(name), column):
                    self.lines.append(text)
                    self.rows.append(row_names)
            self.ends.append(len(self.lines))
        self.numbers = not_blank(self.lines) if names else []
        self.texts = [self.lines[number] for number in self.numbers]

    def place(self, index: int) -> dict[str, Any]:
        """Where a text is: its `file` of several, and its `line`, or of a table its `row` and the `id` it may have."""
        number = self.numbers[index]
        file = bisect_right(self.ends, number)  # a file without texts ends where the one before does
        line = number - (self.ends[file - 1] if file else 0) + 1
        place = self.rows[number] if self.rows else {"line": line}
        return ({"file": self.names[file]} if len(self.names) > 1 else {}) | place


def _print_ranking(
    ranked: dict[str, tuple["np.ndarray", "np.ndarray"]], queries: list[str], searched: Candidates, as_json: bool
) -> None:
    """`ranked`: by method, the numbers and the scores of the best texts of each query."""
    more = ["id"] if any("id" in place for place in searched.rows) else []
    for method, (numbers, values) in ranked.items():
        for query, best, of_best in zip(queries, numbers.tolist(), values.tolist(), strict=True):
            places, texts = map(searched.place, best), (searched.texts[number] for number in best)
            hits = zip(count(1), of_best, places, texts, strict=False)
            if as_json:
                for rank, value, place, text in hits:
                    row = {"query": query, "method": method, "rank": rank, "score": round(value, 4)}
                    print(json.dumps(row | place | {"text": text}, ensure_ascii=False))
                continue
            print(f"{query}  (by {method})")
            table = [
                [str(rank), f"{value:.3f}", place_name(place, searched.unit)]
                + [one_line(str(place.get(name, ""))) for name in more]
                + [one_line(text)]
                for rank, value, place, text in hits
            ]
            print_table(["rank", "score", searched.unit, *more, "text"], table)


def place_name(place: dict[str, Any], unit: str) -> str:
    """A place as in `reviews.txt:3`, without the only file's name."""
    return ":".join(str(place[name]) for name in ("file", unit) if name in place)


def one_line(text: str) -> str:
    """A text, or the beginning of a long one, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= CHARACTERS_SHOWN else line[: CHARACTERS_SHOWN - 1] + "…"
