"""Sentence vectors by layer: PCA and alignment are those of scikit-learn and SciPy, and the page shows them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pages import Page, asks_no_server, needs_node
from scipy.linalg import orthogonal_procrustes
from sklearn.decomposition import PCA

import kobert_pipeline as kobert_package
from kobert_pipeline.errors import UserError
from kobert_pipeline.visualize.embeddings import (
    METADATA,
    LabelledTexts,
    Projection,
    aligned,
    layer_vectors,
    principal_components,
    write_projector,
)
from kobert_pipeline.visualize.embeddings_page import COLOURS, OTHER, embeddings_page
from kobert_pipeline.visualize.page import write_page

KINDS = [("재밌다", "좋음"), ("지루하다", "싫음")]
LINES = [f"{i}번째 <b>영화</b>는 {'정말 ' * (i % 3)}{KINDS[i % 2][0]}\t{KINDS[i % 2][1]}" for i in range(12)]


def rotation(angle: float) -> np.ndarray:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def test_points_are_the_principal_components() -> None:
    vectors = np.random.default_rng(1).normal(size=(20, 6)) * np.arange(1, 7) + 5
    points, explained = principal_components(vectors)
    pca = PCA(2).fit(vectors)
    expected = pca.transform(vectors)
    expected /= np.sqrt((expected**2).sum(1).mean())
    np.testing.assert_allclose(np.abs(points), np.abs(expected))
    np.testing.assert_allclose(explained, pca.explained_variance_ratio_.sum())
    np.testing.assert_allclose(principal_components(-vectors)[0], -points, err_msg="signs are fixed by the axes")


def test_a_rotated_or_mirrored_layer_is_turned_back() -> None:
    rng = np.random.default_rng(2)
    reference, noise = rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) * 0.05
    for turn in (rotation(2.5), rotation(-1) @ np.diag([1, -1])):
        points = (reference + noise) @ turn
        found = aligned(points, reference)
        np.testing.assert_allclose(found, reference + noise @ np.eye(2), atol=0.1)
        np.testing.assert_allclose(found, points @ orthogonal_procrustes(points, reference)[0])


def test_layers_follow_one_another() -> None:
    """Where the first two components swap, points projected alone jump; aligned, they hardly move."""
    rng = np.random.default_rng(3)
    cloud = np.linalg.qr(rng.normal(size=(40, 5)))[0]
    scales = [[3, 2.9, 0.1, 0.1, 0.1], [2.9, 3, 0.1, 0.1, 0.1]]
    layers = np.stack([cloud * scales[i % 2] @ np.linalg.qr(rng.normal(size=(5, 5)))[0] for i in range(6)])
    alone = np.stack([principal_components(layer)[0] for layer in layers])
    assert np.abs(np.diff(alone, axis=0)).max(axis=(1, 2)).min() > 1
    assert np.abs(np.diff(Projection.of(layers).points, axis=0)).max() < 0.1


def test_equal_vectors_are_at_the_centre() -> None:
    """As those of [CLS] in the embeddings."""
    vectors = np.stack([np.ones((5, 4)), np.random.default_rng(4).normal(size=(5, 4))])
    found = Projection.of(vectors)
    assert not found.points[0].any() and found.points[1].any()
    assert np.isfinite(found.points).all() and np.isfinite(found.shares).all()
    assert not Projection.of(vectors, "tsne").points[0].any()


def test_tsne_keeps_neighbours_that_two_components_lose() -> None:
    """Sixteen clusters on the axes of as many dimensions; from one layer to the next, which is nearly the same, points
    hardly move."""
    rng = np.random.default_rng(6)
    labels = np.repeat(np.arange(16), 6)
    cloud = np.eye(16)[labels] + rng.normal(size=(96, 16)) * 0.1
    layers = np.stack([cloud, cloud + rng.normal(size=cloud.shape) * 0.001])
    found = Projection.of(layers, "tsne")

    def neighbours_share_a_label(points: np.ndarray) -> float:
        distances = np.linalg.norm(points[:, None] - points[None], axis=2) + np.eye(96) * 1e9
        return float((labels[distances.argmin(1)] == labels).mean())

    assert neighbours_share_a_label(found.points[0]) == 1 > neighbours_share_a_label(Projection.of(layers).points[0])
    assert (found.shares > Projection.of(layers).shares).all() and (found.shares <= 1).all()
    np.testing.assert_array_equal(found.points, Projection.of(layers, "tsne").points)
    np.testing.assert_allclose((found.points**2).sum(2).mean(1), 1, rtol=1e-5)
    assert np.abs(np.diff(found.points, axis=0)).max() < 0.5
    # with so few texts that no cluster is left
    assert np.isfinite(Projection.of(layers[:, :3], "tsne").points).all()


def test_vectors_of_layers_are_those_of_embed(tiny: Any) -> None:
    folder, texts = tiny.run_dir / "publish" / "mlm", [line.partition("\t")[0] for line in LINES]
    vectors, truncated = layer_vectors(folder, texts)
    checkpoint = kobert_package.load(folder)
    assert (vectors.shape, truncated) == ((2, 12, 32), 0)
    for layer in (0, 1):
        np.testing.assert_allclose(vectors[layer], checkpoint.embed(texts, layers=(layer,)), atol=1e-6)


def test_texts_with_labels_are_read(tmp_path: Path) -> None:
    found = LabelledTexts.of(Path("x.tsv"), ["가\tb", "", "나\ta", "다\tb", "라\tb"], 3)
    assert (found.texts, found.labels) == (["가", "나", "다"], ["b", "a", "b"])
    assert found.counts() == {"b": 2, "a": 1}
    plain = LabelledTexts.of(Path("x.txt"), ["가\tb", "나", "다", ""], 9)
    assert (plain.texts, plain.labels) == (["가\tb", "나", "다"], None)
    with pytest.raises(UserError, match=r"x\.tsv, line 3: 2 tabs"):
        LabelledTexts.of(Path("x.tsv"), ["가\tb", "나\ta", "다\tb\t1"], 9)
    with pytest.raises(UserError, match="2 texts; at least 3"):
        LabelledTexts.of(Path("x.txt"), ["가", " ", "나"], 9)


@pytest.fixture(scope="module")
def written(tiny: Any, tmp_path_factory: pytest.TempPathFactory, kobert: Callable[..., Any]) -> Path:
    """A folder with `e.html` and `projector`, written by the command."""
    place = tmp_path_factory.mktemp("written")
    (place / "texts.tsv").write_text("\n".join(LINES), encoding="utf-8")
    folder = tiny.run_dir / "publish" / "mlm"
    words = ["--out", place / "e.html", "--projector", place / "projector"]
    result = kobert("visualize", "embeddings", folder, place / "texts.tsv", *words)
    assert result.code == 0, result.err
    return place


def test_page_is_one_file_that_asks_no_server(written: Path, tiny: Any) -> None:
    found = Page(written / "e.html")
    asks_no_server(found)
    assert "b" not in [tag for tag, _ in found.tags], "texts are escaped"
    vectors, _ = layer_vectors(tiny.run_dir / "publish" / "mlm", found.data["texts"])
    np.testing.assert_allclose(found.data["points"], Projection.of(vectors).points, atol=1e-3)
    assert (found.data["names"], found.data["counts"]) == (["좋음", "싫음"], [6, 6])


@needs_node
def test_slider_moves_the_points(written: Path) -> None:
    found = Page(written / "e.html")
    last, first, chosen = found.states(("layer", "0"), ("click", 3))
    for state, layer in ((last, 1), (first, 0)):
        drawn = np.array([[float(one["cx"]), -float(one["cy"])] for one in state["picture"]])
        expected = np.array(found.data["points"][layer])
        scale = np.abs(drawn - drawn.mean(0)).max() / np.abs(expected - expected.mean(0)).max()
        np.testing.assert_allclose(drawn - drawn.mean(0), (expected - expected.mean(0)) * scale, atol=0.2)
    assert [one["fill"] for one in last["picture"][:2]] == list(COLOURS[:2])
    assert chosen["said"] == LINES[3].partition("\t")[2] + ": " + LINES[3].partition("\t")[0]
    assert [one["r"] for one in chosen["picture"]].count("8") == 1


@needs_node
def test_rare_labels_share_a_colour(tmp_path: Path) -> None:
    labels = [str(i) for i in range(10) for _ in range(12 - i)]
    found = LabelledTexts([f"글 {i}" for i in range(len(labels))], labels)
    vectors = np.random.default_rng(5).normal(size=(2, len(labels), 4))
    write_page(tmp_path / "e.html", embeddings_page("x", found, Projection.of(vectors), "mean"))
    write_page(tmp_path / "t.html", embeddings_page("x", found, Projection.of(vectors, "tsne"), "mean"))
    for name, measure in (("e", "of the variance in two dimensions"), ("t", "trustworthiness of neighbours")):
        assert Page(tmp_path / f"{name}.html").data["kept_of"] == measure
    (state,) = Page(tmp_path / "e.html").states()
    colours = dict(zip(labels, [one["fill"] for one in state["picture"]], strict=True))
    assert list(colours.values()) == [*COLOURS, OTHER, OTHER]


def test_tensorboard_reads_the_files_of_the_projector(written: Path, tiny: Any) -> None:
    from google.protobuf import text_format
    from tensorboard.plugins import projector

    folder = written / "projector"
    config = text_format.Parse((folder / "projector_config.pbtxt").read_text(), projector.ProjectorConfig())
    (one,) = config.embeddings
    vectors = np.loadtxt(folder / one.tensor_path, delimiter="\t", dtype=np.float32)
    expected, _ = layer_vectors(tiny.run_dir / "publish" / "mlm", [line.partition("\t")[0] for line in LINES])
    np.testing.assert_array_equal(vectors, expected[-1])
    assert (folder / one.metadata_path).read_text(encoding="utf-8").splitlines() == ["text\tlabel", *LINES]


def test_what_cannot_be_shown_is_refused_in_one_sentence(written: Path, tiny: Any, kobert: Callable[..., Any]) -> None:
    def complaint(*words: object) -> str:
        folder = tiny.run_dir / "publish" / "mlm"
        return str(kobert("visualize", "embeddings", folder, written / "texts.tsv", *words).complaint)

    table = written / "reviews.csv"
    table.write_text("text,label\n" + "재밌다,좋음\n" * 3, encoding="utf-8")
    before = {path: path.read_bytes() for path in written.rglob("*") if path.is_file()}
    words = ("visualize", "embeddings", tiny.run_dir / "publish" / "mlm", table, "--out", written / "f.html")
    assert "reviews.csv is not one text per line" in kobert(*words).complaint
    assert "give --out OUT.html" in complaint()
    assert "e.html exists already" in complaint("--out", written / "e.html")
    assert "projector exists already" in complaint("--projector", written / "projector")
    assert "must end in one of .html" in complaint("--out", written / "e.png")
    assert "--pooling 'first-last' (allowed: cls, max, mean)" in complaint(
        "--out", written / "f.html", "--pooling", "first-last"
    )
    assert "--projection 'umap' (allowed: pca, tsne)" in complaint("--out", written / "f.html", "--projection", "umap")
    assert {path: path.read_bytes() for path in written.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("labels", "lines"), [(None, ["가 나", "다"]), (["좋음", "싫음"], ["text\tlabel", "가 나\t좋음", "다\t싫음"])]
)
def test_the_projector_takes_a_header_only_with_labels(
    labels: list[str] | None, lines: list[str], tmp_path: Path
) -> None:
    write_projector(tmp_path / "p", np.ones((2, 2)), LabelledTexts(["가\t나", "다"], labels))
    assert (tmp_path / "p" / METADATA).read_text(encoding="utf-8").splitlines() == lines
    with pytest.raises(UserError, match="--projector"):
        write_projector(tmp_path / "p", np.ones((2, 2)), LabelledTexts(["가", "다"], labels))


def test_texts_that_are_cut_are_counted(tiny: Any, tmp_path: Path, kobert: Callable[..., Any]) -> None:
    (tmp_path / "a.txt").write_text("\n".join([*LINES[:3], "정말 재밌다 " * 200]), encoding="utf-8")
    words = (
        "visualize",
        "embeddings",
        tiny.run_dir / "publish" / "mlm",
        tmp_path / "a.txt",
        "--out",
        tmp_path / "a.html",
    )
    assert "1 texts are longer than the model reads, and were truncated" in kobert(*words).err
