"""The command `kobert similar`. torch and transformers are imported only once the arguments are known to be valid."""

import sys
from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kobert_pipeline.cli.arguments import Folder, IdColumn, TokenizerName
from kobert_pipeline.cli.embed import Column, Layers, Weights, parse_layers
from kobert_pipeline.cli.formatting import json_for, print_json, print_table
from kobert_pipeline.cli.input_lines import (
    file_batches,
    refuse_file_names,
    refuse_missing,
    refuse_tables,
    refuse_undecodable,
)
from kobert_pipeline.errors import UserError

if TYPE_CHECKING:
    from kobert_pipeline.inference.embed import Embedder
    from kobert_pipeline.inference.rerank import Reranker
    from kobert_pipeline.inference.similar import Ranking, Scores, Searchable
    from kobert_pipeline.inference.text_index import TextIndex

CHARACTERS_SHOWN = 200
"""How many characters of a text the table shows; --json prints the whole text, too."""
Queries = Annotated[list[str] | None, typer.Argument(metavar="[QUERY]...", help="Texts to find similar ones for.")]
IN = "A file of texts to search in, one per line, or with --column a table; - reads standard input. Repeatable."
In = Annotated[list[str] | None, typer.Option("--in", metavar="FILE", help=IN)]
GOLD = "Evaluate: questions in SQuAD form or a table, which must find their own context among all contexts."
Gold = Annotated[Path | None, typer.Option(metavar="FILE", help=GOLD)]
BY = "A pooling (as kobert embed), bm25, hybrid. Repeatable; default: the pooling of training, of an index hybrid."
By = Annotated[list[str] | None, typer.Option(metavar="METHOD", help=BY)]
AsJsonRows = Annotated[bool, typer.Option("--json", help="Print one JSON object per result, with --gold one.")]
TopK = Annotated[int | None, typer.Option(min=1, help="Texts shown per query; default: 5.")]
BM25_WEIGHT = "Share of BM25 in hybrid, from 0 to 1."
Bm25Weight = Annotated[float, typer.Option(min=0, max=1, help=BM25_WEIGHT)]
INDEX = "What kobert index wrote, in place of --in; nothing is embedded or analysed again."
Index = Annotated[Path | None, typer.Option(metavar="DIR", help=INDEX)]
RERANK = "Order the first texts anew, by a published checkpoint that labels or scores pairs of texts."
Rerank = Annotated[str | None, typer.Option(metavar="CHECKPOINT", help=RERANK)]
# the scores of --gold look at the first ten
RerankTop = Annotated[int | None, typer.Option(min=10, help="Texts of a query that --rerank orders anew; default: 50.")]
RERANKED = "{}, reranked"
"""The name of a method whose first texts were ordered anew."""


def similar(
    checkpoint: Folder,
    queries: Queries = None,
    candidates: In = None,
    column: Column = None,
    id_column: IdColumn = None,
    gold: Gold = None,
    by: By = None,
    top_k: TopK = None,
    layers: Layers = "-1",
    weights: Weights = None,
    bm25_weight: Bm25Weight = 0.5,
    index: Index = None,
    rerank: Rerank = None,
    rerank_top: RerankTop = None,
    tokenizer: TokenizerName = None,
    as_json: AsJsonRows = False,
) -> None:
    """Rank texts by their similarity to a query, by vectors, BM25 or both; or measure how well that works (--gold).

    Example: kobert similar runs/quickstart/publish/nsmc "정말 재밌다" --in reviews.txt --by mean --by bm25
    """
    refuse_undecodable(queries or [], "query")
    _refuse_conflicts(queries, candidates, column, id_column, gold, index)
    _refuse_unused(gold, top_k, rerank, rerank_top)

    from kobert_pipeline.inference import similar as search
    from kobert_pipeline.inference.text_index import TextIndex

    search.refuse_unknown(by or [])
    embedder_of = search.embedders(checkpoint, tokenizer, parse_layers(layers), weights)
    rank = partial(_scores, by=by or [], embedder_of=embedder_of, bm25_weight=bm25_weight)
    reranker = _reranker(rerank, rerank_top or 50) if rerank else None
    if gold:
        _evaluate(gold, rank, reranker, as_json)
        return
    searched = TextIndex(index) if index else Candidates(candidates or [], column, id_column)
    ranked = _ranking(searched, queries or [], rank, reranker, top_k or 5)
    _print_ranking(ranked, queries or [], searched, as_json)


def _ranking(
    searched: "Candidates | TextIndex",
    queries: list[str],
    rank: Callable[["Searchable"], "dict[str, Scores]"],
    reranker: "Reranker | None",
    top_k: int,
) -> "Ranking":
    """The `top_k` texts of each query, by the scores of `rank`."""
    from kobert_pipeline.inference.similar import top

    # more than are shown, for the reranker to choose from
    count = max(top_k, reranker.count) if reranker else top_k
    ranked = {method: top(scores, queries, count) for method, scores in rank(searched).items()}
    if not reranker:
        return ranked
    reranked = {
        RERANKED.format(method): reranker.rerank(queries, found, lambda index: searched.row(index)["text"])
        for method, (found, _) in ranked.items()
    }
    return {method: (found[:, :top_k], values[:, :top_k]) for method, (found, values) in reranked.items()}


def _scores(
    searched: "Searchable",
    by: list[str],
    embedder_of: Callable[[str | None], "Embedder"],
    bm25_weight: float,
) -> "dict[str, Scores]":
    """{method: its scores}, by default of an index what it says, of other texts of the pooling that the model was
    trained with."""
    from kobert_pipeline.inference.similar import rankers
    from kobert_pipeline.inference.text_index import TextIndex

    if isinstance(searched, TextIndex):
        default, pooling = searched.methods[0], searched.pooling or ""
    else:
        default = pooling = embedder_of(None).pooling if not by or "hybrid" in by else ""
    return rankers(searched, list(dict.fromkeys(by or [default])), embedder_of, pooling, bm25_weight)


def _reranker(checkpoint: str, count: int) -> "Reranker":
    from kobert_pipeline.inference.checkpoint import Checkpoint
    from kobert_pipeline.inference.loading import AUTO
    from kobert_pipeline.inference.rerank import Reranker

    return Reranker(Checkpoint.load(checkpoint, backend=AUTO), count)


def _refuse_conflicts(
    queries: list[str] | None,
    candidates: list[str] | None,
    column: str | None,
    id_column: str | None,
    gold: Path | None,
    index: Path | None,
) -> None:
    if candidates:
        refuse_file_names(queries or [], "repeat --in for each file")
    if index and (candidates or column or gold):
        raise UserError("--index has the texts and their vectors; leave --in, --column and --gold out")
    if bool(gold) == bool(queries and (candidates or index)) or (gold and (queries or candidates or column)):
        raise UserError("give a QUERY and --in FILE (or --index DIR) with the texts, or --gold FILE.json without these")
    refuse_missing([*(candidates or []), *([str(gold)] if gold else [])])
    refuse_tables(candidates or [], column, id_column)


def _refuse_unused(gold: Path | None, top_k: int | None, rerank: str | None, rerank_top: int | None) -> None:
    """Raise UserError for an option without an effect."""
    if gold and top_k:
        raise UserError("--gold scores the ranks of the right texts and shows none; leave --top-k out")
    if rerank_top and not rerank:
        raise UserError("--rerank-top is for --rerank CHECKPOINT; give both, or leave it out")


def _evaluate(
    gold: Path,
    rank: Callable[["Searchable"], "dict[str, Scores]"],
    reranker: "Reranker | None",
    as_json: bool,
) -> None:
    """Print how well questions find their contexts, and with a reranker also how well once it has ordered the first
    ones."""
    import numpy as np

    from kobert_pipeline.inference.similar import Texts, contexts, retrieval_scores

    texts, queries, right = contexts(gold)
    methods = rank(Texts(texts))
    if reranker:
        methods |= {RERANKED.format(method): reranker.reranked(scores, texts) for method, scores in methods.items()}
    rows = {
        method: {name: round(value, 2) for name, value in retrieval_scores(scores, queries, np.array(right)).items()}
        for method, scores in methods.items()
    }
    if as_json:
        print_json({"queries": len(queries), "texts": len(texts), "methods": rows})
        return
    names = list(next(iter(rows.values())))
    print(f"{len(queries):,} queries, {len(texts):,} texts; in percent:")
    print_table(["method", *names], [[method, *(f"{row[name]:.2f}" for name in names)] for method, row in rows.items()])


class Candidates:
    """The `texts` of all files, and where each is from: its number among the `lines`, which may also be blank."""

    def __init__(self, names: list[str], column: str | None, id_column: str | None = None) -> None:
        from kobert_pipeline.inference.similar import Texts, not_blank

        self.lines: list[str] = []
        self.locations: list[dict[str, Any]] = []  # of tables only: a line is located by its number
        self.names, self.ends, self.unit = names, list[int](), "row" if column else "line"
        for name in names:
            if column is None:
                self.lines += chain.from_iterable(file_batches([name]))
            else:
                from kobert_pipeline.inference.table_fields import column_texts

                for text, row_names in column_texts(Path(name), column, id_column):
                    self.lines.append(text)
                    self.locations.append(row_names)
            self.ends.append(len(self.lines))
        self.numbers = not_blank(self.lines)
        self.texts = [self.lines[line_index] for line_index in self.numbers]
        searchable = Texts(self.texts)
        self.cosines, self.bm25 = searchable.cosines, searchable.bm25

    def row(self, index: int) -> dict[str, Any]:
        """A `text` and where it is: its `file` of several, and its `line`, or of a table its `row` and the `id` it may
        have."""
        line_index = self.numbers[index]
        file = bisect_right(self.ends, line_index)  # a file without texts ends where the one before does
        line = line_index - (self.ends[file - 1] if file else 0) + 1
        location = self.locations[line_index] if self.locations else {"line": line}
        of_several = {"file": self.names[file]} if len(self.names) > 1 else {}
        return of_several | location | {"text": self.texts[index]}


def _print_ranking(
    ranked: "Ranking",
    queries: list[str],
    searched: "Candidates | TextIndex",
    as_json: bool,
) -> None:
    """`ranked`: by method, the numbers and the scores of the best texts of each query."""
    from kobert_pipeline.inference.similar import is_hit

    for method, (numbers, values) in ranked.items():
        for query, best, of_best in zip(queries, numbers.tolist(), values.tolist(), strict=True):
            scored = [pair for pair in zip(of_best, best, strict=True) if is_hit(method, pair[0])]
            hits = [(rank, value, searched.row(index)) for rank, (value, index) in enumerate(scored, 1)]
            shown = snippets(query, [row["text"] for _, _, row in hits])
            if as_json:
                for (rank, value, row), text in zip(hits, shown, strict=True):
                    result = {"query": query, "method": method, "rank": rank, "score": round(value, 4)}
                    print(json_for(sys.stdout, result | row | {"snippet": text}))
                continue
            print(f"{query}  (by {method}{'' if hits else '; no text has a word of it, or a part of one'})")
            more = ["id"] if any("id" in row for _, _, row in hits) else []
            table = [
                [str(rank), f"{value:.3f}", place_name(row, searched.unit)]
                + [" ".join(str(row.get(name, "")).split()) for name in more]
                + [text]
                for (rank, value, row), text in zip(hits, shown, strict=True)
            ]
            print_table(["rank", "score", searched.unit, *more, "text"], table)


def snippets(query: str, texts: list[str]) -> list[str]:
    """Each text in one line, of a long one the part with most of what BM25 looks for."""
    lines = [" ".join(text.split()) for text in texts]
    if max(map(len, lines), default=0) <= CHARACTERS_SHOWN:
        return lines
    from kobert_pipeline.questions.bm25 import QUESTION_WORDS, passages_of, search_terms

    terms = set(search_terms([query], QUESTION_WORDS)[0])
    return passages_of(lines, terms, CHARACTERS_SHOWN)


def place_name(location: dict[str, Any], unit: str) -> str:
    """A location as in `reviews.txt:3`, without the name of a file that is the only one."""
    return ":".join(str(location[name]) for name in ("file", unit) if name in location)
