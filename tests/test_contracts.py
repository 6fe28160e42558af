"""What every variant of every family promises, and that a new one is one new file. Nothing here lists a variant."""

import ast
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel, ValidationError

from kobert_pipeline.config import plugins
from kobert_pipeline.config.options import Options, Plugin
from kobert_pipeline.pipeline.recipe import Recipe

VARIANTS = [(family, name) for family in plugins.CONTRACTS for name in plugins.contract(family).names()]
REQUIRED: dict[str, Any] = {"text": "text", "path": "a.txt", "partition": "cpu"}
"""Values for options without a default."""


def given(family: str, name: str) -> dict[str, Any]:
    """The least that chooses a variant."""
    fields = plugins.contract(family).variant(name).model_fields
    return {"name": name} | {key: REQUIRED[key] for key, option in fields.items() if option.is_required()}


@pytest.fixture(params=VARIANTS, ids=lambda pair: ".".join(pair))
def variant(request: pytest.FixtureRequest) -> tuple[str, str, type[Plugin]]:
    family, name = request.param
    return family, name, plugins.contract(family).variant(name)


def test_every_family_has_variants() -> None:
    assert {family for family, _ in VARIANTS} == set(plugins.CONTRACTS)


def test_registry_knows_every_contract_of_the_package() -> None:
    package = Path(importlib.import_module("kobert_pipeline").__file__ or "").parent
    declared = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.AnnAssign)
                and ast.unparse(node.target) == "family"
                and isinstance(node.value, ast.Constant)
            ):
                declared.add(node.value.value)
    assert declared - {""} == set(plugins.CONTRACTS)


def test_file_defines_one_variant_named_like_the_file(variant) -> None:
    family, name, plugin = variant
    if family == "analyzers":
        pytest.skip("an analyzer's file holds no class, since it is shipped where this package is not")
    contract = plugins.contract(family)
    module = importlib.import_module(plugin.__module__)
    own = [
        c
        for c in vars(module).values()
        if inspect.isclass(c) and issubclass(c, contract) and c.__module__ == module.__name__
    ]
    assert own == [plugin]
    assert plugin.model_fields["name"].default == name == Path(module.__file__ or "").stem


def test_variant_implements_its_contract(variant) -> None:
    """By hand: pydantic models don't refuse to be made when an abstract method is missing."""
    family, _, plugin = variant
    contract = plugins.contract(family)
    abstract = {
        name
        for base in contract.__mro__
        for name, value in vars(base).items()
        if getattr(value, "__isabstractmethod__", False)
    }
    missing = {name for name in abstract if getattr(getattr(plugin, name), "__isabstractmethod__", False)}
    assert not missing
    for name in {name for name in abstract if not isinstance(getattr(contract, name), property)}:
        wanted, made = inspect.signature(getattr(contract, name)), inspect.signature(getattr(plugin, name))
        assert list(made.parameters) == list(wanted.parameters), f"{name} takes other arguments than the contract says"


@pytest.mark.parametrize("name", plugins.contract("analyzers").names())
def test_analyzer_gives_columns_of_one_length_in_each_of_its_styles(name: str) -> None:
    from kobert_pipeline.morphemes.morpheme import REPLACING, STYLES

    module = importlib.import_module(f"kobert_pipeline.morphemes.analyzers.{name}")
    imports = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.ImportFrom)]
    assert not [node for node in imports if node.level or (node.module or "").startswith("kobert_pipeline")], (
        "it is shipped alone"
    )
    assert set(module.STYLES) <= set(STYLES) and isinstance(module.USER_WORDS, bool) and module.version()
    texts = ["그 배우는 무대에서 노래했다. 정말?", "", "ㅋㅋ 😀"]
    for style in module.STYLES:
        for columns in module.tokens(texts, style, num_workers=1):
            assert len({len(column) for column in columns if column is not None}) == 1
            assert (columns[3] is not None) == (style in REPLACING)


def test_variant_gives_every_class_variable_of_its_contract_as_one_or_as_an_option(variant) -> None:
    family, _, plugin = variant
    wanted = [name for name in plugins.contract(family).__class_vars__ if not name.startswith("_")]
    assert not [name for name in wanted if not hasattr(plugin, name) and name not in plugin.model_fields]


def test_variant_is_documented(variant) -> None:
    _, _, plugin = variant
    assert (plugin.__dict__.get("__doc__") or "").strip()
    assert (importlib.import_module(plugin.__module__).__doc__ or "").strip()
    assert not [
        name
        for name, option in plugin.model_fields.items()
        if name != "name" and not (option.description or "").strip()
    ]


def test_variant_is_frozen_and_refuses_unknown_keys(variant) -> None:
    family, name, _ = variant
    contract = plugins.contract(family)
    chosen = contract.choose(given(family, name))
    with pytest.raises(ValidationError, match="frozen"):
        chosen.name = "other"
    with pytest.raises(Exception, match="unknown key 'colour'"):
        contract.choose(given(family, name) | {"colour": "red"})


def test_dump_is_json_and_chooses_the_same_again(variant) -> None:
    family, name, plugin = variant
    contract = plugins.contract(family)
    chosen = contract.choose(given(family, name))
    assert type(chosen) is plugin
    dumped = json.loads(json.dumps(chosen.dump()))
    assert dumped["name"] == name
    again = contract.choose(dumped)
    assert type(again) is plugin
    assert again == chosen


@pytest.mark.parametrize("family", plugins.CONTRACTS)
def test_unknown_variant_is_refused_with_a_guess_and_the_allowed(family: str) -> None:
    contract = plugins.contract(family)
    name = contract.names()[0]
    with pytest.raises(Exception, match=f"did you mean '{name}'") as caught:
        contract.choose(name + "x")
    assert all(allowed in str(caught.value) for allowed in contract.names())


@pytest.mark.parametrize("family", plugins.CONTRACTS)
@pytest.mark.parametrize("nothing", [None, 3, [], {}, {"name": 3}])
def test_variant_without_a_name_is_refused(family: str, nothing: Any) -> None:
    with pytest.raises(Exception, match="needs a name from the"):
        plugins.contract(family).choose(nothing)


def all_options(kind: type[BaseModel], seen: set[type[BaseModel]] | None = None) -> set[type[BaseModel]]:
    """`kind` and every options class below it."""
    seen = set() if seen is None else seen
    if kind not in seen:
        seen.add(kind)
        for field in kind.model_fields.values():
            for found in classes_in(field.annotation):
                all_options(found, seen)
    return seen


def classes_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from classes_in(inner)


def test_every_option_of_a_recipe_is_documented_and_frozen() -> None:
    kinds = all_options(Recipe)
    assert len(kinds) > 12
    for kind in kinds:
        assert issubclass(kind, Options)
        assert kind.model_config["frozen"]
        assert kind.model_config["extra"] == "forbid"
        undocumented = [
            name
            for name, option in kind.model_fields.items()
            if name != "name" and not (option.description or "").strip()
        ]
        assert not undocumented, kind.__name__


GUIDE = (Path(plugins.__file__).parents[2] / "docs" / "adding.md").read_text(encoding="utf-8")
NEW = dict(re.findall(r"^`kobert_pipeline/\w+/(\w+)/NAME\.py`$.*?^```python\n(.*?)^```$", GUIDE, re.M | re.S))
"""One new file of each family: those that the guide shows."""


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Any]:
    """`newcomer(family)` lays one new file beside the others of a family, for this test only."""
    undo = []

    def add(family: str) -> type[Plugin]:
        contract = plugins.contract(family)
        package = importlib.import_module(contract.package())
        folder = tmp_path / family
        folder.mkdir()
        (folder / "newcomer.py").write_text(NEW[family], encoding="utf-8")
        package.__path__.append(str(folder))
        importlib.invalidate_caches()
        undo.append((package, str(folder)))
        return contract

    yield add
    for package, folder in undo:
        package.__path__.remove(folder)
        sys.modules.pop(f"{package.__name__}.newcomer", None)
        vars(package).pop("newcomer", None)


@pytest.mark.parametrize("family", plugins.CONTRACTS)
def test_a_new_variant_is_one_new_file(family: str, newcomer, kobert) -> None:
    assert "newcomer" not in plugins.contract(family).names()
    contract = newcomer(family)
    assert "newcomer" in contract.names()
    assert type(contract.choose(given(family, "newcomer"))).__module__ == f"{contract.package()}.newcomer"
    assert "newcomer" in kobert("list", family, "--json").json[family]
    assert kobert("explain", f"{family}.newcomer", "--json").json["title"] == f"newcomer ({family})"


def test_a_new_reader_task_and_subword_model_work_in_a_run(newcomer, tiny, tmp_path, data_copy, kobert) -> None:
    for family in ("readers", "tasks", "subwords"):
        newcomer(family)
    (data_copy / "lines.txt").write_text(
        "\n".join(f"{i}번 문장이다{'?' if i % 2 else '.'}" for i in range(60)), encoding="utf-8"
    )
    settings = [
        "corpus.sources.0.name=newcomer", "tokenizer.subword={name: newcomer, vocab_size: 900}",
        f"data_dir={data_copy}",
        "features={lines: {task: newcomer, train: lines.txt, dev_share: 0.3}}", "finetune={lines: {}}", "publish={}",
    ]  # fmt: skip
    arguments = [part for setting in settings for part in ("--set", setting)]
    result = kobert(
        "run", tiny.recipe, "--run-dir", tmp_path / "runs" / "new", "--until", "features", "--json", *arguments
    )
    counts = {row["stage"]: row["counts"] for row in result.json["stages"]}
    assert counts["corpus"]["documents_kept"] == 82
    assert counts["tokenizer"]["vocab_size"] == 900
    assert counts["features"]["train_examples"] + counts["features"]["dev_examples"] == 60


def test_a_new_objective_and_architecture_give_a_loss_near_that_of_guessing(newcomer, tiny) -> None:
    import torch

    from kobert_pipeline.pretrain.loader import Loader
    from kobert_pipeline.pretrain.model import LossModule, to_device
    from kobert_pipeline.pretrain.stage import PretrainOptions
    from kobert_pipeline.shards.format import Shards

    for family in ("objectives", "architectures"):
        newcomer(family)
    options = PretrainOptions(
        objective="newcomer", architecture={"name": "newcomer", "hidden_size": 32}, batch_tokens=2048
    )
    torch.manual_seed(0)
    model = options.architecture.model(options.architecture.config(1500), options.objective.head)
    loader = Loader(Shards.open(tiny.run_dir / "shards", "train"), options, 1500, seed=1)
    loss, values = LossModule(model, options.objective, options.architecture)(to_device(loader.batch(0), "cpu"))
    assert model.config.intermediate_size == 32
    assert float(values["mlm_loss"]) == pytest.approx(np.log(1500), rel=0.05)
    assert loss.item() == pytest.approx(np.log(1500) + np.log(2), rel=0.05)


def test_a_new_analyzer_cuts_the_corpus_by_its_one_file(tiny, tmp_path) -> None:
    """In a copy of the package, since analysis runs in processes of its own."""
    package = shutil.copytree(Path(plugins.__file__).parents[1], tmp_path / "code" / "kobert_pipeline")
    (package / "morphemes" / "analyzers" / "newcomer.py").write_text(NEW["analyzers"], encoding="utf-8")
    run_dir = tiny.copy(tmp_path / "runs" / "new", "corpus")
    arguments = [
        "analysis",
        str(tiny.recipe),
        "--run-dir",
        str(run_dir),
        "--set",
        "analysis.analyzer=newcomer",
        "--json",
    ]
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    command = [sys.executable, "-m", "kobert_pipeline", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=package.parent, timeout=120)
    assert result.returncode == 0, result.stderr
    counts = json.loads(result.stdout)["stages"][0]["counts"]
    assert counts["morphemes"] > 2 * counts["eojeols"]
    assert tiny.manifests(run_dir)["analysis"]["inputs"]["analyzer"] == "characters 1"
