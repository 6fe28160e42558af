"""The command `kobert similar`. torch and transformers are imported only once the arguments are known to be valid."""

import json
from bisect import bisect_right
from collections.abc import Callable
from functools import partial
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

    from kobert_pipeline.inference.embed import Embedder
    from kobert_pipeline.inference.similar import Scores, Searchable
    from kobert_pipeline.inference.text_index import TextIndex

CHARACTERS_SHOWN = 200
"""How many characters of a text the table shows; --json prints the whole text."""
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
INDEX = "What kobert index wrote, in place of --in; nothing is embedded or analysed again."
Index = Annotated[Path | None, typer.Option(metavar="DIR", help=INDEX)]
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
    index: Index = None,
    tokenizer: TokenizerName = None,
    as_json: AsJson = False,
) -> None:
    """Rank texts by their similarity to a query, by vectors, BM25 or both; or measure how well that works (--gold).

    Example: kobert similar runs/quickstart/publish/nsmc "정말 재밌다" --in reviews.txt --by mean --by bm25
    """
    _refuse_conflicts(queries, candidates, column, gold, by or [], hybrid_pooling, vectors, index)
    numbers = parse_layers(layers)

    from kobert_pipeline.inference import similar as search
    from kobert_pipeline.inference.text_index import TextIndex

    search.refuse_unknown(by or [], hybrid_pooling)
    embedder_of, asked = search.embedders(checkpoint, tokenizer, numbers, weights), queries or []
    rank = partial(_scores, by=by or [], embedder_of=embedder_of, hybrid=hybrid_pooling, bm25_weight=bm25_weight)
    if gold:
        texts, asked, right = search.contexts(gold)
        _print_evaluation(rank(search.Texts(texts)), asked, right, len(texts), as_json)
        return
    searched = TextIndex(index) if index else Candidates(candidates or [], column)
    if vectors and isinstance(searched, Candidates):
        ranked = search.top_of_stored(vectors, searched.lines, searched.numbers, embedder_of, by, asked, top_k)
    else:
        ranked = {method: search.top(scores, asked, top_k) for method, scores in rank(searched).items()}
    _print_ranking(ranked, asked, searched, as_json)


def _scores(
    searched: "Searchable",
    by: list[str],
    embedder_of: Callable[[str | None], "Embedder"],
    hybrid: str | None,
    bm25_weight: float,
) -> "dict[str, Scores]":
    """{method: its scores}, by default of the pooling that the model was trained with."""
    from kobert_pipeline.inference.similar import rankers

    trained = embedder_of(None).pooling if not by or "hybrid" in by else ""
    return rankers(searched, list(dict.fromkeys(by or [trained])), embedder_of, hybrid or trained, bm25_weight)


def _refuse_conflicts(
    queries: list[str] | None,
    candidates: list[str] | None,
    column: str | None,
    gold: Path | None,
    by: list[str],
    hybrid_pooling: str | None,
    vectors: Path | None,
    index: Path | None,
) -> None:
    if index and (candidates or column or gold or vectors):
        raise UserError("--index has the texts and their vectors; leave --in, --column, --gold and --vectors out")
    if bool(gold) == bool(queries and (candidates or index)) or (gold and (queries or candidates or column or vectors)):
        raise UserError("give a QUERY and --in FILE (or --index DIR) with the texts, or --gold FILE.json without these")
    if vectors and (len(by) > 1 or {"bm25", "hybrid"} & set(by) or hybrid_pooling):
        raise UserError("--vectors are ranked by one pooling; give --by once, without bm25 and hybrid, or leave it out")
    refuse_missing([*(candidates or []), *(str(path) for path in (gold, vectors) if path)])
    refuse_tables(candidates or [], column)


def _print_evaluation(
    scores_by_method: dict[str, "Scores"], queries: list[str], right: list[int], texts: int, as_json: bool
) -> None:
    import numpy as np

    from kobert_pipeline.inference.similar import retrieval_scores

    gold = np.array(right)
    rows = {
        method: {name: round(value, 2) for name, value in retrieval_scores(scores, queries, gold).items()}
        for method, scores in scores_by_method.items()
    }
    if as_json:
        print_json({"queries": len(queries), "texts": texts, "methods": rows})
        return
    names = list(next(iter(rows.values())))
    print(f"{len(queries):,} queries, {texts:,} texts; in percent:")
    print_table(["method", *names], [[method, *(f"{row[name]:.2f}" for name in names)] for method, row in rows.items()])


class Candidates:
    """The `texts` of all files, and where each is from: its number among the `lines`, which may also be blank."""

    def __init__(self, names: list[str], column: str | None) -> None:
        from kobert_pipeline.inference.similar import Texts, not_blank

        self.lines: list[str] = []
        self.locations: list[dict[str, Any]] = []  # of tables only: a line is located by its number
        self.names, self.ends, self.unit = names, list[int](), "row" if column else "line"
        for name in names:
            if column is None:
                self.lines += chain.from_iterable(file_batches([name]))
            else:
                from kobert_pipeline.inference.table_fields import column_texts

                for text, row_names in column_texts(Path(name), column):
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
    ranked: dict[str, tuple["np.ndarray", "np.ndarray"]],
    queries: list[str],
    searched: "Candidates | TextIndex",
    as_json: bool,
) -> None:
    """`ranked`: by method, the numbers and the scores of the best texts of each query."""
    for method, (numbers, values) in ranked.items():
        for query, best, of_best in zip(queries, numbers.tolist(), values.tolist(), strict=True):
            hits = list(zip(count(1), of_best, map(searched.row, best), strict=False))
            if as_json:
                for rank, value, row in hits:
                    result = {"query": query, "method": method, "rank": rank, "score": round(value, 4)}
                    print(json.dumps(result | row, ensure_ascii=False))
                continue
            print(f"{query}  (by {method})")
            more = ["id"] if any("id" in row for _, _, row in hits) else []
            shown = snippets(query, [row["text"] for _, _, row in hits])
            table = [
                [str(rank), f"{value:.3f}", place_name(row, searched.unit)]
                + [" ".join(str(row.get(name, "")).split()) for name in more]
                + [text]
                for (rank, value, row), text in zip(hits, shown, strict=True)
            ]
            print_table(["rank", "score", searched.unit, *more, "text"], table)


def snippets(query: str, texts: list[str]) -> list[str]:
    """Each text in one line, of a long one the part with most words of the query."""
    lines = [" ".join(text.split()) for text in texts]
    if max(map(len, lines), default=0) <= CHARACTERS_SHOWN:
        return lines
    from kobert_pipeline.inference.bm25 import content_morphemes, passage_of

    terms = set(content_morphemes([query])[0])
    return [passage_of(line, terms, CHARACTERS_SHOWN) for line in lines]


def place_name(location: dict[str, Any], unit: str) -> str:
    """A location as in `reviews.txt:3`, without the name of a file that is the only one."""
    return ":".join(str(location[name]) for name in ("file", unit) if name in location)
