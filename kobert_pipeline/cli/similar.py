"""The command `kobert similar`. torch and transformers are imported only once the arguments are known to be valid."""

import json
import os
from bisect import bisect_right
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kobert_pipeline.cli.arguments import AsJson, Checkpoint, TokenizerFolder
from kobert_pipeline.cli.embed import Column, Layers, Weights, parse_layers
from kobert_pipeline.cli.formatting import print_json, print_table
from kobert_pipeline.cli.input_lines import file_batches, refuse_missing, refuse_tables
from kobert_pipeline.errors import UserError

if TYPE_CHECKING:
    import numpy as np

    from kobert_pipeline.inference.similar import Scores

LETTERS_SHOWN = 200
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
    checkpoint: Checkpoint,
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
    tokenizer: TokenizerFolder = None,
    as_json: AsJson = False,
) -> None:
    """Rank texts by their similarity to a query, by vectors, BM25 or both; or measure how well that works (--gold).

    Example: kobert similar runs/quickstart/publish/nsmc "정말 재밌다" --in reviews.txt --by mean --by bm25
    """
    _refuse_conflicts(queries, candidates, gold, column)
    _refuse_conflicts_of_methods(by or [], hybrid_pooling, weights, vectors, gold)
    numbers = parse_layers(layers)

    from kobert_pipeline.inference.similar import contexts, embedders, rankers, refuse_unknown, top, top_of_stored

    refuse_unknown(by or [], hybrid_pooling)
    lines_of, rows_of = read_candidates(candidates or [], column)
    texts, asked, right = contexts(gold) if gold else (list(chain(*lines_of.values())), queries or [], [])
    embedder_of = embedders(checkpoint, tokenizer, numbers, weights)
    if vectors:
        ranked = top_of_stored(vectors, texts, lambda: embedder_of(by[0] if by else None), asked, top_k)
    else:
        own = embedder_of(None).pooling if not by or "hybrid" in by else ""  # that of the model's training
        found = rankers(texts, list(dict.fromkeys(by or [own])), embedder_of, hybrid_pooling or own, bm25_weight)
        if gold:
            _print_evaluation(found, asked, right, len(texts), as_json)
            return
        ranked = {method: top(scores, asked, top_k) for method, scores in found.items()}
    _print_ranking(ranked, asked, lines_of, rows_of, as_json)


def _refuse_conflicts(
    queries: list[str] | None, candidates: list[str] | None, gold: Path | None, column: str | None
) -> None:
    if gold and (queries or candidates or column):
        raise UserError(
            "--gold brings queries and texts of its own; leave QUERY, --in and --column out, or leave --gold out"
        )
    if not gold and not (queries and candidates):
        raise UserError("give a QUERY and --in FILE with the texts to search in, or --gold FILE.json")
    if candidates and (named := next(filter(os.path.isfile, queries or []), None)):
        raise UserError(
            f"{named} is a file, but given as a QUERY, as by a pattern of the shell after --in; write --in before each "
            "file that is searched in"
        )
    refuse_missing([*(candidates or []), *([str(gold)] if gold else [])])
    refuse_tables(candidates or [], column)


def _refuse_conflicts_of_methods(
    by: list[str], hybrid_pooling: str | None, weights: Path | None, vectors: Path | None, gold: Path | None
) -> None:
    if weights and "weighted" not in (*by, hybrid_pooling):
        raise UserError("--weights is for the pooling weighted; give --by weighted, or leave --weights out")
    if not vectors:
        return
    if gold:
        raise UserError("--vectors is for ranking the texts of --in; leave it out with --gold")
    if len(by) > 1 or {"bm25", "hybrid"} & set(by) or hybrid_pooling:
        raise UserError("--vectors are ranked by one pooling; give --by once, without bm25 and hybrid, or leave it out")
    refuse_missing([str(vectors)])


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


def _print_ranking(
    ranked: dict[str, tuple["np.ndarray", "np.ndarray"]],
    queries: list[str],
    lines_of: dict[str, list[str]],
    rows_of: dict[str, list[dict[str, Any]]],
    as_json: bool,
) -> None:
    """`ranked`: by method, the numbers and the scores of the best texts of each query; the others as in
    `read_candidates`."""
    place_of = partial(place_in, lines_of=lines_of, rows_of=rows_of)
    texts, unit = list(chain(*lines_of.values())), "row" if rows_of else "line"
    more = ["id"] if any("id" in rows[0] for rows in rows_of.values()) else []
    for method, (numbers, values) in ranked.items():
        for query, best, of_best in zip(queries, numbers.tolist(), values.tolist(), strict=True):
            of_query = list(enumerate(zip(best, of_best, strict=True), 1))
            if as_json:
                rows = [
                    {"query": query, "method": method, "rank": rank, "score": round(value, 4)}
                    | place_of(number)
                    | {"text": texts[number]}
                    for rank, (number, value) in of_query
                ]
                print(*(json.dumps(row, ensure_ascii=False) for row in rows), sep="\n")
                continue
            print(f"{query}  (by {method})")
            table = [
                [str(rank), f"{value:.3f}", place_name(place_of(number), unit)]
                + [one_line(str(place_of(number).get(name, ""))) for name in more]
                + [one_line(texts[number])]
                for rank, (number, value) in of_query
            ]
            print_table(["rank", "score", unit, *more, "text"], table)


def place_name(place: dict[str, Any], unit: str) -> str:
    """A place as in `reviews.txt:3`, without the only file's name."""
    return ":".join(str(place[name]) for name in ("file", unit) if name in place)


def read_candidates(
    names: list[str], column: str | None
) -> tuple[dict[str, list[str]], dict[str, list[dict[str, Any]]]]:
    """The texts of each file; and for tables, with a `column`, the `row` and the `id` of each."""
    if column is None:
        return {name: list(chain.from_iterable(file_batches([name]))) for name in names}, {}
    from kobert_pipeline.inference.table_inputs import column_rows

    found = {name: list(column_rows(Path(name), column)) for name in names}
    return (
        {name: [text for text, _ in rows] for name, rows in found.items()},
        {name: [place for _, place in rows] for name, rows in found.items()},
    )


def place_in(number: int, lines_of: dict[str, list[str]], rows_of: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Where a text is, by its number among those of all files: its `file` of several, and its `line`, or of a table its
    `row` and the `id` it may have."""
    ends = list(accumulate(map(len, lines_of.values())))
    file = bisect_right(ends, number)  # files without texts have the end of the one before
    name, place = list(lines_of)[file], number - (ends[file - 1] if file else 0)
    return ({"file": name} if len(lines_of) > 1 else {}) | (rows_of[name][place] if rows_of else {"line": place + 1})


def one_line(text: str) -> str:
    """A text, or the beginning of a long one, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= LETTERS_SHOWN else line[: LETTERS_SHOWN - 1] + "…"
