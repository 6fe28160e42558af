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
from pydantic import ValidationError

from kobert_pipeline.config import plugins, recipe_file
from kobert_pipeline.config.options import Options, Plugin
from kobert_pipeline.pipeline.recipe import Recipe
from kobert_pipeline.pretrain.options import PretrainOptions

VARIANTS = [(family, name) for family in plugins.CONTRACTS for name in plugins.contract(family).names()]
REQUIRED: dict[str, Any] = {"text": "text", "path": "a.txt", "partition": "cpu"}
"""Values for options without a default."""


def given(family: str, name: str) -> dict[str, Any]:
    """The minimum options that choose a variant."""
    fields = plugins.contract(family).variant(name).model_fields
    return {"name": name} | {key: REQUIRED[key] for key, option in fields.items() if option.is_required()}


def variants() -> Iterator[tuple[str, str, type[Plugin]]]:
    """(family, name, class) of every variant there is."""
    for family, name in VARIANTS:
        yield family, name, plugins.contract(family).variant(name)


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


def test_every_file_defines_one_variant_named_like_the_file() -> None:
    for family, name, plugin in variants():
        if family == "analyzers":
            continue  # its file holds no class, since it is shipped where this package is not
        contract, module = plugins.contract(family), importlib.import_module(plugin.__module__)
        classes = [value for value in vars(module).values() if inspect.isclass(value) and issubclass(value, contract)]
        assert [value for value in classes if value.__module__ == module.__name__] == [plugin], f"{family}.{name}"
        assert plugin.model_fields["name"].default == name == Path(module.__file__ or "").stem


def is_abstract(value: Any) -> bool:
    return bool(getattr(value, "__isabstractmethod__", False))


def test_every_variant_implements_its_contract() -> None:
    """By hand: pydantic models can be made although an abstract method is missing."""
    for family, name, plugin in variants():
        contract = plugins.contract(family)
        abstract = {key for base in contract.__mro__ for key, value in vars(base).items() if is_abstract(value)}
        assert not {key for key in abstract if is_abstract(getattr(plugin, key))}, f"{family}.{name}"
        for key in {key for key in abstract if not isinstance(getattr(contract, key), property)}:
            wanted, made = inspect.signature(getattr(contract, key)), inspect.signature(getattr(plugin, key))
            assert list(made.parameters) == list(wanted.parameters), f"{family}.{name}.{key}: other arguments"
        needed = [key for key in contract.__class_vars__ if not key.startswith("_")]
        assert not [key for key in needed if not hasattr(plugin, key) and key not in plugin.model_fields]


def test_every_analyzer_gives_columns_of_one_length_in_each_of_its_styles() -> None:
    from kobert_pipeline.morphemes.morpheme import REPLACING, STYLES

    texts = ["그 배우는 무대에서 노래했다. 정말?", "", "ㅋㅋ 😀"]
    for name in plugins.contract("analyzers").names():
        module = importlib.import_module(f"kobert_pipeline.morphemes.analyzers.{name}")
        nodes = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.ImportFrom)]
        own = [node for node in nodes if node.level or (node.module or "").startswith("kobert_pipeline")]
        assert not own, f"{name} is shipped alone"
        assert set(module.STYLES) <= set(STYLES) and isinstance(module.USER_TAGS, tuple) and module.version()
        for style in module.STYLES:
            for columns in module.tokens(texts, style):
                assert len({len(column) for column in columns if column is not None}) == 1
                assert (columns[3] is not None) == (style in REPLACING)


def undocumented(kind: type[Options]) -> list[str]:
    texts = plugins.docstrings(kind)
    return [key for key in kind.model_fields if key != "name" and not texts.get(key)]


def test_every_variant_is_documented() -> None:
    for family, name, plugin in variants():
        assert (plugin.__dict__.get("__doc__") or "").strip(), f"{family}.{name}"
        assert (importlib.import_module(plugin.__module__).__doc__ or "").strip(), f"{family}.{name}"
        assert not undocumented(plugin), f"{family}.{name}"


def test_every_variant_is_frozen_refuses_unknown_keys_and_survives_its_dump() -> None:
    for family, name, plugin in variants():
        contract = plugins.contract(family)
        chosen = contract.choose(given(family, name))
        with pytest.raises(ValidationError, match="frozen"):
            chosen.name = "other"
        with pytest.raises(Exception, match="unknown key 'colour'"):
            contract.choose(given(family, name) | {"colour": "red"})
        dumped = json.loads(json.dumps(chosen.dump()))
        again = contract.choose(dumped)
        assert dumped["name"] == name
        assert type(chosen) is type(again) is plugin
        assert again == chosen


def test_an_unknown_variant_is_refused_with_a_guess_and_the_allowed() -> None:
    for family in plugins.CONTRACTS:
        contract = plugins.contract(family)
        name = contract.names()[0]
        with pytest.raises(Exception, match=f"did you mean '{name}'") as caught:
            contract.choose(name + "x")
        assert all(allowed in str(caught.value) for allowed in contract.names())
        for nothing in (None, 3, [], {}, {"name": 3}):
            with pytest.raises(Exception, match="needs a name from the"):
                contract.choose(nothing)


def test_options_without_a_name_are_those_of_the_default_variant() -> None:
    given = PretrainOptions(objective={"mlm_probability": 0.4}, architecture={"num_hidden_layers": 2})
    assert given == PretrainOptions(
        objective={"name": "mlm_nsp", "mlm_probability": 0.4}, architecture={"name": "bert", "num_hidden_layers": 2}
    )
    with pytest.raises(ValidationError, match="needs a name from the architectures"):
        PretrainOptions(architecture={"num_hidden_layers": 2, "local_attention": 32})  # not an option of BERT
    Recipe.model_validate(recipe_file.load("mini-nsmc", ["analysis.analyzer.style=none"]))


def all_options(kind: type[Options], seen: set[type[Options]] | None = None) -> set[type[Options]]:
    """`kind` and every options class below it."""
    seen = set() if seen is None else seen
    if kind not in seen:
        seen.add(kind)
        for field in kind.model_fields.values():
            for found in classes_in(field.annotation):
                all_options(found, seen)
    return seen


def classes_in(annotation: Any) -> Iterator[type[Options]]:
    if inspect.isclass(annotation) and issubclass(annotation, Options):
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
        assert not undocumented(kind), kind.__name__


GUIDE = (Path(plugins.__file__).parents[2] / "docs" / "adding.md").read_text(encoding="utf-8")
NEW = dict(re.findall(r"^`kobert_pipeline/\w+/(\w+)/NAME\.py`$.*?^```python\n(.*?)^```$", GUIDE, re.M | re.S))
"""One new file of each family: those that the guide shows."""


@pytest.fixture
def newcomer(tmp_path: Path) -> Iterator[Any]:
    """`newcomer(family)` adds one new file to a family's folder, for this test only."""
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


def test_a_new_variant_of_every_family_is_one_new_file(newcomer, kobert) -> None:
    for family in plugins.CONTRACTS:
        assert "newcomer" not in plugins.contract(family).names()
        contract = newcomer(family)
        assert "newcomer" in contract.names()
        assert type(contract.choose(given(family, "newcomer"))).__module__ == f"{contract.package()}.newcomer"
        assert "newcomer" in kobert("list", family, "--json").json[family]
        assert kobert("explain", f"{family}.newcomer", "--json").json["title"] == f"newcomer ({family})"


def test_a_new_reader_task_and_subword_model_work_in_a_run(newcomer, tiny, tmp_path, data_copy, kobert) -> None:
    for family in ("readers", "tasks", "subwords"):
        newcomer(family)
    write_pairs(data_copy / "pairs.csv")
    settings = [
        "corpus.sources.0.name=newcomer", "tokenizer.subword={name: newcomer, vocab_size: 900}",
        f"data_dir={data_copy}",
        "features={pairs: {task: newcomer, train: pairs.csv, dev_share: 0.3}}", "finetune={pairs: {}}", "publish={}",
    ]  # fmt: skip
    arguments = [part for setting in settings for part in ("--set", setting)]
    more = ("--until", "features", "--num-workers", 1, "--json")
    result = kobert("run", tiny.recipe, "--run-dir", tmp_path / "runs" / "new", *more, *arguments)
    counts = {row["stage"]: row["counts"] for row in result.json["stages"]}
    assert counts["corpus"]["documents_kept"] == 82
    assert counts["tokenizer"]["vocab_size"] == 900
    assert counts["features"]["train_examples"] + counts["features"]["dev_examples"] == 60


def write_pairs(path: Path) -> None:
    """60 rows for the task of the guide, whose points are the number in the reply."""
    rows = "".join(f"{i}번 문장이 몇 점인가?,{i % 7}점이다.,{i % 7}\n" for i in range(60))
    path.write_text(f"query,reply,points\n{rows}", encoding="utf-8")


def test_a_new_task_of_two_columns_and_a_number_is_used_without_another_line(
    newcomer, tiny, tmp_path, data_copy, kobert
) -> None:
    """Fine-tuned, published, and used by predict, evaluate, the server and the facts of its page."""
    from kobert_pipeline.serve.model import ServedModel

    newcomer("tasks")
    write_pairs(data_copy / "pairs.csv")
    run_dir = tiny.copy(tmp_path / "runs" / "new", "corpus", "analysis", "tokenizer", "shards", "pretrain")
    settings = [
        f"data_dir={data_copy}", "features={pairs: {task: newcomer, train: pairs.csv, dev_share: 0.3, max_length: 32}}",
        "finetune={pairs: {plan: {epochs: 2}}}", "publish={pairs: {source: pairs, onnx: false}}",
    ]  # fmt: skip
    arguments = [part for setting in settings for part in ("--set", setting)]
    assert kobert("run", tiny.recipe, "--run-dir", run_dir, *arguments).code == 0
    folder = run_dir / "publish" / "pairs"
    (alone,) = [
        json.loads(line) for line in kobert("predict", folder, "몇 점인가?\t3점이다.", "--json").out.splitlines()
    ]
    assert alone.keys() == {"text", "text_pair", "score"}
    (data_copy / "new.csv").write_text("query,reply\n몇 점인가?,3점이다.\n", encoding="utf-8")
    (row,) = [
        json.loads(line) for line in kobert("predict", folder, "--in", data_copy / "new.csv", "--json").out.splitlines()
    ]
    assert row == {"row": 1} | alone
    scores = kobert("evaluate", folder, data_copy / "pairs.csv", "--json").json["clean"]["scores"]
    assert scores.keys() == {"spearman"}
    (data_copy / "bad.csv").write_text("query,reply,points\n몇 점인가?,3점이다.,없음\n", encoding="utf-8")
    assert "bad.csv, line 2: the score is '없음'" in kobert("evaluate", folder, data_copy / "bad.csv").complaint
    served = ServedModel("pairs", str(folder))
    assert served.paired and "/v1/classify" in served.endpoints
    assert served.predict([{"text": "몇 점인가?", "text_pair": "3점이다.", "label": 0}]) == [alone]


def test_a_new_objective_and_architecture_give_a_loss_near_that_of_guessing(newcomer, tiny) -> None:
    import torch

    from kobert_pipeline.pretrain.loader import Loader
    from kobert_pipeline.pretrain.model import LossModule
    from kobert_pipeline.pretrain.options import PretrainOptions
    from kobert_pipeline.pretrain.tensor_batch import to_device
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
    """In a copy of the package, since analysis runs in other processes."""
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
