"""Sentence vectors of every layer in two dimensions.

Each layer has a projection of its own (PCA or t-SNE), whose axes may point anywhere. It is rotated or mirrored onto the
layer before (orthogonal Procrustes, Schönemann 1966), so that points do not jump from layer to layer because an axis
has turned over.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kobert_pipeline.errors import UserError, refuse_existing, refuse_unknown
from kobert_pipeline.files import atomic_write
from kobert_pipeline.finetune.pooling import encoder_of
from kobert_pipeline.inference.embed import Embedder
from kobert_pipeline.inference.loading import load_encoder

POOLINGS = ("mean", "cls", "max")
PROJECTIONS = ("pca", "tsne")
PERPLEXITY = 30
"""Neighbours that t-SNE keeps near, about; a third of the texts where there are fewer than three times as many."""
NEIGHBOURS = 5
"""Nearest points in the picture that trustworthiness looks at."""
NO_VARIANCE = 1e-12
"""Squared distance below which vectors differ by rounding only, as the vectors of [CLS] do in the embeddings."""
VECTORS, METADATA = "vectors.tsv", "metadata.tsv"
FEWEST = 3
"""Texts below which a picture in two dimensions shows nothing."""


@dataclass(frozen=True)
class LabelledTexts:
    """Texts and, where the file has them, the label of each."""

    texts: list[str]
    labels: list[str] | None

    @classmethod
    def of(cls, path: Path, lines: Iterable[str], limit: int) -> "LabelledTexts":
        """The lines of a file, without blank ones: of a .tsv each a text, a tab and its label. Of more than `limit`,
        evenly spaced ones are taken. Raises UserError for too few, or a line of a .tsv with another number of tabs."""
        numbered = [(line_number, line) for line_number, line in enumerate(lines, 1) if line.strip()]
        if len(numbered) < FEWEST:
            raise UserError(f"{path} has {len(numbered)} texts; at least {FEWEST} are needed for a picture")
        if len(numbered) > limit:
            numbered = [numbered[i * len(numbered) // limit] for i in range(limit)]
        if path.suffix != ".tsv":
            return cls([line for _, line in numbered], None)
        rows = [line.split("\t") for _, line in numbered]
        for (line_number, _), row in zip(numbered, rows, strict=True):
            if len(row) != 2:
                raise UserError(
                    f"{path}, line {line_number}: {len(row) - 1} tabs; a text, a tab and its label were expected (a "
                    "file without labels has another suffix, such as .txt)"
                )
        return cls([text for text, _ in rows], [label for _, label in rows])

    def counts(self) -> dict[str, int]:
        """{label: number of texts}, the most frequent first."""
        return dict(Counter(self.labels or ()).most_common())


def layer_vectors(
    folder: Path, texts: Sequence[str], pooling: str = "mean", tokenizer: str | None = None
) -> tuple[np.ndarray, int]:
    """The vectors of texts in every layer of a checkpoint, (layers + 1, n, H), the embeddings first; and how many texts
    were truncated."""
    refuse_unknown("--pooling", pooling, POOLINGS)
    loaded = load_encoder(folder, tokenizer)
    count = encoder_of(loaded.model).config.num_hidden_layers + 1
    embedder = Embedder(loaded.model, loaded.tokenizer, pooling, range(count))
    vectors = embedder.embed(texts).reshape(len(texts), count, -1)  # (n, L * H) -split-> (n, L, H)
    return vectors.transpose(1, 0, 2), embedder.truncated


@dataclass(frozen=True)
class Projection:
    """`points` (L, n, 2), each layer scaled to the same spread, and `shares` (L,): of `pca` the share of a layer's
    variance that its two dimensions keep, of `tsne` the trustworthiness of neighbours in the picture, 1 at best (Venna
    and Kaski 2001)."""

    points: np.ndarray
    shares: np.ndarray
    kind: str = "pca"

    @classmethod
    def of(cls, vectors: np.ndarray, kind: str = "pca") -> "Projection":
        """The projection of vectors (L, n, H), layer by layer: onto the first two principal components (`pca`), or by
        t-SNE, which starts from them in the first layer and from the layer before in all others (`tsne`)."""
        layers, shares = list[np.ndarray](), list[float]()
        neighbours: np.ndarray | None = None
        for layer in vectors.astype(np.float64):
            points, share = principal_components(layer)
            # zeros are the points of equal vectors: from their PCA scikit-learn's t-SNE starts at NaN, and crashes
            if kind == "tsne" and points.any():
                neighbours, share = tsne(layer, neighbours)
                points = spread(neighbours - neighbours.mean(0))
            layers.append(aligned(points, layers[-1]) if layers else points)
            shares.append(share)
        return cls(np.stack(layers), np.array(shares), kind)


def principal_components(vectors: np.ndarray) -> tuple[np.ndarray, float]:
    """The first two principal components of vectors (n, H), as points (n, 2) whose mean squared distance from their
    centre is 1, and the share of the variance that they keep. Points of equal vectors are all at the centre."""
    from sklearn.decomposition import PCA

    if vectors.var(0).sum() <= NO_VARIANCE:
        return np.zeros((len(vectors), 2)), 1.0
    # the default may choose a solver that is random; the signs of components are fixed by scikit-learn
    pca = PCA(2, svd_solver="full")
    points = pca.fit_transform(vectors)
    return spread(points), float(pca.explained_variance_ratio_.sum())


def tsne(vectors: np.ndarray, before: np.ndarray | None) -> tuple[np.ndarray, float]:
    """Vectors (n, H) as points (n, 2) with the same neighbours, as far as possible (van der Maaten and Hinton, JMLR
    2008), and the trustworthiness of these neighbours. It starts from the points of the layer before, or from PCA."""
    from sklearn.manifold import TSNE, trustworthiness

    count = len(vectors)
    # exaggeration at first finds clusters, but would scatter the clusters of the layer before
    start, exaggeration = ("pca", 12) if before is None else (before, 1)
    perplexity = min(PERPLEXITY, (count - 1) / 3)
    estimator = TSNE(2, perplexity=perplexity, init=start, early_exaggeration=exaggeration, random_state=0)
    points = estimator.fit_transform(vectors)
    # scikit-learn requires fewer neighbours than half of the texts
    share = trustworthiness(vectors, points, n_neighbors=max(1, min(NEIGHBOURS, (count - 1) // 2)))
    return points, float(share)


def spread(points: np.ndarray) -> np.ndarray:
    """Points (n, 2), scaled to a mean squared distance of 1 from the origin."""
    return points / np.sqrt((points**2).sum(1).mean())


def aligned(points: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Points (n, 2), rotated or mirrored so that the squared distances to the points `reference` (n, 2) are least."""
    from scipy.linalg import orthogonal_procrustes

    turned: np.ndarray = points @ orthogonal_procrustes(points, reference)[0]
    return turned


def write_projector(folder: Path, vectors: np.ndarray, labelled: LabelledTexts) -> None:
    """Write vectors (n, H) as TensorBoard's projector reads them, as a logdir or loaded in its web page: a TSV file of
    vectors, and one of texts and labels. Raises UserError where the folder exists."""
    refuse_existing(folder, "--projector")
    texts = [" ".join(text.split()) for text in labelled.texts]
    if labelled.labels is None:  # the projector takes the first line for a header only where there are several columns
        metadata = texts
    else:
        rows = zip(["text", *texts], ["label", *(label.strip() for label in labelled.labels)], strict=True)
        metadata = ["\t".join(row) for row in rows]
    # the shortest decimals that give the same float32
    _write_lines(folder / VECTORS, ["\t".join(vector) for vector in vectors.astype(np.float32).astype(str)])
    _write_lines(folder / METADATA, metadata)
    paths = [f'  tensor_path: "{VECTORS}"', f'  metadata_path: "{METADATA}"']
    _write_lines(folder / "projector_config.pbtxt", ["embeddings {", *paths, "}"])


def _write_lines(path: Path, lines: list[str]) -> None:
    with atomic_write(path) as part:
        part.write_text("\n".join([*lines, ""]), encoding="utf-8")
