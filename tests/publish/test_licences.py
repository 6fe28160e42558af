"""Which licences of the data allow a model to be published, and how other recipes are refused."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kobert_pipeline.config import recipe_file
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.options import FeaturesOptions, named_files
from kobert_pipeline.pipeline.card_from_dev import dev_licence
from kobert_pipeline.pipeline.stages import plan
from kobert_pipeline.publish.licences import (
    NOT_STATED,
    conditions,
    hub_name,
    refusal,
    split_names,
    without_known_licence,
)

# (licence of the data, licence of the model, words of the refusal); without words it may be published
SHARED, NONCOMMERCIAL, NO_DERIVATIVES = "shared under the same licence", "forbids commercial use", "forbids sharing"
CASES: list[tuple[str, str, tuple[str, ...]]] = [
    ("CC0-1.0", "apache-2.0", ()),
    ("public domain", "mit", ()),
    ("CC BY 4.0 / MIT / Apache-2.0 / 0BSD", "apache-2.0", ()),
    ("BSD-3-Clause, ISC; ODC-By-1.0", "apache-2.0", ()),
    ("my own", "apache-2.0", ()),
    ("공공누리 제1유형", "mit", ()),
    ("KOGL type 1", "mit", ()),
    ("CC BY-SA 3.0", "cc-by-sa-3.0", ()),
    ("CC BY-SA 3.0", "cc-by-sa-4.0", ()),
    ("CC_BY_SA-2.0-KR", "cc-by-sa-4.0", ()),
    ("cc-by-sa-4.0", "CC BY-SA 4.0", ()),
    ("GFDL-1.3", "gfdl", ()),
    ("GPL-3.0-or-later", "gpl-3.0", ()),
    ("CC BY-NC 4.0", "cc-by-nc-4.0", ()),
    ("CC BY-NC 4.0", "cc-by-nc-sa-4.0", ()),
    ("CC BY-NC 4.0", "cc-by-nc-nd-4.0", ()),
    ("공공누리 제2유형", "공공누리 제4유형", ()),
    ("CC BY-NC-SA 4.0", "cc-by-nc-sa-4.0", ()),
    (NOT_STATED, "apache-2.0", ()),
    (" / ", "apache-2.0", ()),
    ("비영리 연구용", "apache-2.0", ()),
    ("CC BY-SA 4.0", "cc-by-sa", (SHARED, "cc-by-sa-4.0")),
    ("CC BY-SA 4.0", "apache-2.0", (SHARED, "set its license to cc-by-sa-4.0")),
    ("CC BY-SA 4.0", "cc-by-sa-3.0", (SHARED, "cc-by-sa-4.0")),
    ("CC BY-SA 4.0 / MIT", "mit", (SHARED, "cc-by-sa-4.0")),
    ("MIT / CC BY-SA 4.0", "research only", (SHARED, "cc-by-sa-4.0")),
    ("CC BY-SA 4.0", "gfdl", (SHARED, "cc-by-sa-4.0")),
    ("CC BY-SA 3.0", "cc-by-nc-sa-4.0", (SHARED, "cc-by-sa-4.0")),
    ("CC BY-SA 1.0", "cc-by-sa-4.0", (SHARED, "cc-by-sa-1.0")),
    ("AGPL-3.0", "lgpl-3.0", (SHARED, "agpl-3.0")),
    ("gpl-3.0-only", "lgpl-3.0", (SHARED, "gpl-3.0")),
    ("CC BY-NC 4.0", "apache-2.0", (NONCOMMERCIAL, "cc-by-nc-4.0")),
    ("CC BY-NC 4.0", "cc-by-nd-4.0", (NONCOMMERCIAL, "cc-by-nc-4.0")),
    ("CC-BY-NC", "cc-by-sa-4.0", (NONCOMMERCIAL, "cc-by-nc-4.0")),
    ("공공누리 제2유형(출처표시+상업적 이용금지)", "mit", (NONCOMMERCIAL, "cc-by-nc-4.0")),
    ("CC BY-NC-SA 4.0", "cc-by-nc-4.0", (NONCOMMERCIAL, SHARED, "cc-by-nc-sa-4.0")),
    ("CC BY-NC-SA 4.0", "cc-by-sa-4.0", (NONCOMMERCIAL, SHARED, "cc-by-nc-sa-4.0")),
    ("CC BY-ND 2.0 KR", "cc-by-nd-4.0", (NO_DERIVATIVES, "leave that source out")),
    ("Apache-2.0 / CC BY-ND 2.0 KR", "mit", (NO_DERIVATIVES, "leave that source out")),
    ("CC BY-NC-ND 4.0", "cc-by-nc-nd-4.0", (NONCOMMERCIAL, NO_DERIVATIVES, "leave that source out")),
    ("KOGL-3", "mit", (NO_DERIVATIVES, "leave that source out")),
    (
        "공공누리 제4유형(출처표시, 상업적 이용금지, 변경금지)",
        "mit",
        (NONCOMMERCIAL, NO_DERIVATIVES, "leave that source out"),
    ),
]


def source(licence: str) -> list[dict[str, str]]:
    return [{"path": "fine.txt", "license": "CC0-1.0"}, {"path": "a.txt", "license": licence}]


@pytest.mark.parametrize(("data", "model", "words"), CASES)
def test_licences_of_the_data_allow_or_forbid_that_of_the_model(data: str, model: str, words: tuple[str, ...]) -> None:
    message = refusal(source(data), model)
    assert bool(message) == bool(words)
    if message:
        assert message.startswith("a.txt is under ")
        assert all(word in message for word in (*words, f"under {model}", "permission"))


@pytest.mark.parametrize(("data", "suggested"), [(data, words[-1].split()[-1]) for data, _, words in CASES if words])
def test_a_suggested_licence_is_accepted(data: str, suggested: str) -> None:
    assert suggested == "out" or refusal(source(data), suggested) is None


def test_files_without_a_known_licence_are_listed() -> None:
    stated = {
        "a": "CC BY-ND 4.0",
        "b": NOT_STATED,
        "c": "MIT",
        "d": "/",
        "e": "MIT / research only",
        "f": "KOGL type 1",
    }
    rows = [{"path": path, "license": licence} for path, licence in stated.items()]
    assert without_known_licence(rows) == ["b", "d", "e"]


def test_the_card_spells_licences_as_the_hub_does() -> None:
    assert hub_name("CC BY-SA 4.0") == {"license": "cc-by-sa-4.0"}
    assert hub_name("My House Terms") == {"license": "other", "license_name": "my-house-terms"}


def test_a_checkpoint_to_start_from_counts_as_data(corpora, tmp_path, kobert) -> None:
    settings = ("pretrain.base=some/checkpoint", "pretrain.base_license=CC BY-NC 4.0")
    assert "some/checkpoint is under CC BY-NC 4.0" in checked(kobert, corpora, tmp_path, *settings).complaint


def test_a_vocabulary_that_is_passed_on_counts_as_data(corpora, tmp_path) -> None:
    """With `keep: nothing` the base only says which embeddings to start from."""
    settings = [f"data_dir={corpora}", "tokenizer.base=some/checkpoint", "tokenizer.base_license=CC BY-ND 4.0"]
    with pytest.raises(UserError, match=r"some/checkpoint is under CC BY-ND 4\.0"):
        plan("tiny", settings, tmp_path, None)
    plan("tiny", [*settings, "tokenizer.keep=nothing"], tmp_path, None)


@pytest.fixture
def with_card(tmp_path: Path) -> Path:
    """The folder of a model whose card states CC BY-SA 4.0."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "README.md").write_text("---\nlicense: cc-by-sa-4.0\n---\n# A model\n", encoding="utf-8")
    return folder


STARTS = {
    "pretrain.base": "pretrain.base_license",
    "tokenizer.base": "tokenizer.base_license",
    "checkpoint": "checkpoint_license",
}
"""{option: the one for its licence}."""


def starting_from(option: str, folder: Path, corpora: Path, *settings: str) -> list[str]:
    without = ["corpus=null", "shards={}", "pretrain={}", "tokenizer={}"] if option == "checkpoint" else []
    return [f"data_dir={corpora}", *without, f"{option}={folder}", *settings]


@pytest.mark.parametrize("option", STARTS)
def test_the_licence_of_a_model_is_read_from_its_card(option: str, with_card: Path, corpora: Path, tmp_path) -> None:
    publish = "publish={nsmc: {source: nsmc, onnx: false, license: cc-by-sa-4.0}}"
    recipe, _ = plan("tiny", starting_from(option, with_card, corpora, publish), tmp_path, None)
    rows = {row["path"]: row["license"] for row in recipe.training_files(recipe.publish["nsmc"])}
    assert rows[str(with_card)] == "cc-by-sa-4.0"
    with pytest.raises(UserError, match=r"model is under cc-by-sa-4\.0, which requires .* would be under apache-2\.0"):
        plan("tiny", starting_from(option, with_card, corpora), tmp_path, None)


@pytest.mark.parametrize("option", STARTS)
def test_another_licence_than_on_the_card_needs_a_reason(option: str, with_card: Path, corpora: Path, tmp_path) -> None:
    def planned(licence: str, **published: str) -> None:
        publish = {"source": "nsmc", "onnx": False, "license": "cc-by-sa-4.0"} | published
        settings = [f"{STARTS[option]}={licence}", f"publish={{nsmc: {publish}}}"]
        plan("tiny", starting_from(option, with_card, corpora, *settings), tmp_path, None)

    planned("CC BY-SA 4.0")
    with pytest.raises(UserError, match=rf"{STARTS[option]} is MIT, but the card of {with_card} states cc-by-sa-4\.0"):
        planned("MIT")
    planned("MIT", permission="its author gave it to us under MIT")


def checked(kobert, corpora, tmp_path, *settings: str) -> Any:
    options = [word for setting in (f"data_dir={corpora}", *settings) for word in ("--set", setting)]
    return kobert("check", "tiny", *options)


def test_a_recipe_that_may_not_be_published_is_refused_before_anything_is_done(corpora, tmp_path, kobert) -> None:
    for number, setting in enumerate(["corpus.sources.0.license=CC BY-NC 4.0", "features.nsmc.license=CC BY-ND 4.0"]):
        place = tmp_path / str(number)
        place.mkdir()
        message = checked(kobert, corpora, place, setting).complaint
        assert "publish.nsmc: " in message, setting
        assert setting.partition("=")[2] in message, setting
        permitted = "publish={nsmc: {source: nsmc, onnx: false, permission: agreed by letter}}"
        for publish in ("publish={}", permitted):
            assert checked(kobert, corpora, place, setting, publish).code == 0, setting


def test_check_warns_of_training_files_whose_licence_is_not_known(corpora, tmp_path, kobert) -> None:
    assert "warning" not in checked(kobert, corpora, tmp_path).out
    for licence in ("house terms", "null"):
        settings = [f"features.nsmc.license={licence}", "publish={nsmc: {source: nsmc, onnx: false}}"]
        found = checked(kobert, corpora, tmp_path, *settings)
        assert found.code == 0 and found.out.count("warning: ") == 1, found.out
        assert "publish.nsmc would be under apache-2.0" in found.out and "known: reviews_train.txt; give" in found.out
    found = checked(kobert, corpora, tmp_path, *settings, "corpus.sources.0.license=house terms")
    assert ", reviews_train.txt; give the `license` of each" in found.out, found.out
    permitted = "publish={nsmc: {source: nsmc, onnx: false, permission: agreed by letter}}"
    assert "warning" not in checked(kobert, corpora, tmp_path, settings[0], permitted).out


def test_only_the_licences_of_its_own_training_files_count(corpora, tmp_path, kobert) -> None:
    """The reviews are fine-tuned on by `nsmc` alone."""
    settings = ("features.nsmc.license=CC BY-ND 4.0", "publish={q: {source: korquad, onnx: false}}")
    assert checked(kobert, corpora, tmp_path, *settings).code == 0


def test_a_shipped_recipe_states_a_known_licence_for_all_that_it_publishes() -> None:
    for name in recipe_file.shipped():
        content = yaml.safe_load(recipe_file.shipped()[name].read_text(encoding="utf-8"))
        sources = content["corpus"]["sources"] if "corpus" in content else [{"license": content["checkpoint_license"]}]
        features = [FeaturesOptions.model_validate(one) for one in content["features"].values()]
        stated = [one["license"] for one in sources]
        stated += [one.license_of(path) or NOT_STATED for one in features for path in named_files(one)]
        assert None not in [conditions(one) for licence in stated for one in split_names(licence)], name


def test_each_file_may_have_a_licence_of_its_own(corpora, tmp_path, kobert) -> None:
    """A test set that may not be changed does not restrict the model, but the card states its licence."""
    licences = {"reviews_train.txt": "CC0-1.0", "reviews_test.txt": "CC BY-ND 2.0 KR"}
    recipe, _ = plan("tiny", [f"data_dir={corpora}", f"features.nsmc.license={licences}"], tmp_path, None)
    rows = recipe.training_files(recipe.publish["nsmc"]) + recipe.evaluation_files(recipe.publish["nsmc"])
    assert licences.items() <= {row["path"]: row["license"] for row in rows}.items()
    assert dev_licence(recipe.features["nsmc"]) == "CC0-1.0"
    reversed_ = {"reviews_train.txt": "CC BY-ND 2.0 KR"}
    message = checked(kobert, corpora, tmp_path, f"features.nsmc.license={reversed_}").complaint
    assert "reviews_train.txt is under CC BY-ND 2.0 KR" in message
    message = checked(kobert, corpora, tmp_path, "features.nsmc.license={reviews.txt: MIT}").complaint
    assert "license names reviews.txt, but the files are reviews_train.txt, reviews_test.txt" in message


def test_the_licence_of_task_data_changes_nothing_of_the_features(tiny, kobert) -> None:
    result = kobert("features", tiny.recipe, "--run-dir", tiny.run_dir, "--set", "features.nsmc.license=MIT", "--json")
    assert {stage["status"] for stage in result.json["stages"]} == {"skipped"}
