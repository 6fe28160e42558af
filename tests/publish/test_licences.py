"""Which licences of the data let a model be published, and what a recipe is told that must not be."""

from typing import Any

import pytest
import yaml

from kobert_pipeline.config import recipe_file
from kobert_pipeline.errors import UserError
from kobert_pipeline.pipeline.stages import plan
from kobert_pipeline.publish.licences import NOT_STATED, TABLE, hub_name, objections, refusal, terms_of, unstated

ALLOWED = [
    ("CC0-1.0", "apache-2.0"),
    ("public domain", "mit"),
    ("CC BY 4.0 / MIT / Apache-2.0 / BSD", "apache-2.0"),
    ("my own", "apache-2.0"),
    ("공공누리 제1유형", "mit"),
    ("CC BY-SA 3.0", "cc-by-sa-3.0"),
    ("CC BY-SA 3.0", "cc-by-sa-4.0"),
    ("cc-by-sa-4.0", "CC BY-SA 4.0"),
    ("GFDL", "gfdl"),
    ("CC BY-NC 4.0", "cc-by-nc-4.0"),
    ("CC BY-NC 4.0", "cc-by-nc-sa-4.0"),
    ("CC BY-NC 4.0", "cc-by-nc-nd-4.0"),
    ("공공누리 제2유형", "공공누리 제4유형"),
    ("CC BY-SA 1.0", "cc-by-sa-1.0"),
    ("CC BY-SA 2.0 KR", "cc-by-sa-4.0"),
    ("CC BY-NC-SA 4.0", "cc-by-nc-sa-4.0"),
    ("GPL-3.0-or-later", "gpl-3.0"),
    ("LGPL-2.1", "lgpl-3.0"),
    (NOT_STATED, "apache-2.0"),
    (" ", "apache-2.0"),
]
REFUSED = [
    ("CC BY-SA 4.0", "apache-2.0", "shared under the same licence", "cc-by-sa-4.0"),
    ("CC BY-SA 4.0", "cc-by-sa-3.0", "shared under the same licence", "cc-by-sa-4.0"),
    ("CC BY-SA 4.0 / MIT", "mit", "shared under the same licence", "cc-by-sa-4.0"),
    ("CC BY-SA 4.0", "gfdl", "shared under the same licence", "cc-by-sa-4.0"),
    ("CC BY-SA 1.0", "cc-by-sa-4.0", "shared under the same licence", "cc-by-sa-1.0"),
    ("CC BY-NC-SA 1.0", "cc-by-nc-sa-4.0", "shared under the same licence", "cc-by-nc-sa-1.0"),
    ("CC BY-NC-ND 4.0", "cc-by-nc-nd-4.0", "and passing on", "leave that source out"),
    ("CC BY-NC 4.0", "cc-by-nd-4.0", "forbids commercial use", "cc-by-nc-4.0"),
    ("CC BY-NC 4.0", "apache-2.0", "forbids commercial use", "cc-by-nc-4.0"),
    ("CC-BY-NC", "cc-by-sa-4.0", "forbids commercial use", "cc-by-nc-4.0"),
    ("CC BY-NC-SA 4.0", "cc-by-nc-4.0", "forbids commercial use", "cc-by-nc-sa-4.0"),
    ("CC BY-ND 2.0 KR", "cc-by-nd-4.0", "forbids passing on", "leave that source out"),
    ("CC BY-NC-ND 4.0", "cc-by-nc-sa-4.0", "and passing on", "leave that source out"),
    ("공공누리 제3유형", "mit", "forbids passing on", "leave that source out"),
    ("공공누리 제4유형", "mit", "and passing on", "leave that source out"),
    ("AGPL-3.0", "lgpl-3.0", "shared under the same licence", "agpl-3.0"),
    ("gpl-3.0-only", "lgpl-3.0", "shared under the same licence", "gpl-3.0"),
    ("CC BY-NX 4.0", "apache-2.0", "none of the licences that kobert knows", "did you mean 'CC BY"),
    ("research only", "apache-2.0", "none of the licences that kobert knows", "name one of those"),
]


def source(licence: str) -> list[dict[str, str]]:
    return [{"path": "fine.txt", "license": "CC0-1.0"}, {"path": "a.txt", "license": licence}]


@pytest.mark.parametrize(("data", "model"), ALLOWED)
def test_licence_of_the_data_allows_that_of_the_model(data: str, model: str) -> None:
    assert refusal(source(data), model) is None


@pytest.mark.parametrize(("data", "model", "why", "mend"), REFUSED)
def test_licence_of_the_data_forbids_that_of_the_model(data: str, model: str, why: str, mend: str) -> None:
    said = refusal(source(data), model) or ""
    assert said.startswith("a.txt is under ")
    assert why in said and mend in said and "permission" in said


@pytest.mark.parametrize("terms", TABLE, ids=lambda terms: terms.title)
def test_every_row_knows_its_own_title_and_proposes_a_licence_that_mends_it(terms) -> None:
    assert terms_of(terms.title) == terms
    if terms.model:
        assert refusal(source(terms.title), "apache-2.0")
        assert refusal(source(terms.title), terms.model) is None


def test_no_name_is_in_two_rows() -> None:
    import re

    for terms in TABLE:
        for other in TABLE:
            names = [terms.title, terms.model, "cc-by-nc-nd-4.0", "cc-by-sa-3.0"]
            both = [
                name
                for name in names
                if name and all(re.fullmatch(one.pattern, name.lower()) for one in (terms, other))
            ]
            assert other is terms or not both


def test_every_source_in_the_way_is_told_and_the_unstated_are_listed() -> None:
    rows = [
        {"path": name, "license": licence}
        for name, licence in (("a", "CC BY-ND 4.0"), ("b", "CC BY-NC 4.0"), ("c", NOT_STATED))
    ]
    assert [path for path, _, _ in objections(rows, "mit")] == ["a", "b"]
    assert unstated(rows) == ["c"]
    assert unstated(source("/")) == ["a.txt"]


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
        plan("quickstart", settings, tmp_path, None)
    plan("quickstart", [*settings, "tokenizer.keep=nothing"], tmp_path, None)


def checked(kobert, corpora, tmp_path, *settings: str) -> Any:
    laid = [word for setting in (f"data_dir={corpora}", *settings) for word in ("--set", setting)]
    return kobert("check", "quickstart", *laid)


@pytest.mark.parametrize("setting", ["corpus.sources.0.license=CC BY-NC 4.0", "features.nsmc.license=CC BY-ND 4.0"])
def test_a_recipe_that_may_not_be_published_is_refused_before_anything_is_done(
    setting: str, corpora, tmp_path, kobert
) -> None:
    said = checked(kobert, corpora, tmp_path, setting).complaint
    assert "publish.nsmc: " in said
    assert setting.partition("=")[2] in said
    assert checked(kobert, corpora, tmp_path, setting, "publish={}").code == 0
    assert (
        checked(kobert, corpora, tmp_path, setting, "publish={nsmc: {source: nsmc, permission: agreed by letter}}").code
        == 0
    )


def test_only_what_a_model_has_learned_from_stands_in_its_way(corpora, tmp_path, kobert) -> None:
    """The reviews are fine-tuned on by `nsmc` alone."""
    assert (
        checked(kobert, corpora, tmp_path, "features.nsmc.license=CC BY-ND 4.0", "publish={q: {source: korquad}}").code
        == 0
    )


@pytest.mark.parametrize("name", recipe_file.shipped())
def test_a_shipped_recipe_states_a_known_licence_for_all_that_it_publishes(name: str) -> None:
    content = yaml.safe_load(recipe_file.shipped()[name].read_text(encoding="utf-8"))
    stated = [one["license"] for one in [*content["corpus"]["sources"], *content["features"].values()]]
    assert all(terms_of(part) for licence in stated for part in licence.split("/"))


def test_the_licence_of_task_data_changes_nothing_of_the_features(tiny, kobert) -> None:
    result = kobert("features", tiny.recipe, "--run-dir", tiny.run_dir, "--set", "features.nsmc.license=MIT", "--json")
    assert {stage["status"] for stage in result.json["stages"]} == {"skipped"}
