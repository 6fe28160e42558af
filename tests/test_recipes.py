"""Every shipped recipe and every `kobert` command in the documents goes through the real parser, and every wrong recipe
is refused with a clear message."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from pydantic import ValidationError

from kobert_pipeline import files
from kobert_pipeline.cli import main
from kobert_pipeline.config import recipe_file
from kobert_pipeline.config.options import errors_of
from kobert_pipeline.features.tasks.nsmc import Nsmc
from kobert_pipeline.pipeline.recipe import Recipe

REPO = Path(__file__).resolve().parents[1]
GUIDES = [path for path in sorted((REPO / "docs").rglob("*.md")) if "results" not in path.parts]
READMES = [*REPO.glob("README*.md"), *(REPO / "models").glob("README*.md"), REPO / "docs/results/README.md"]
DOCUMENTS = [*READMES, *GUIDES]
"""The other pages of results keep the command as it was given when they were made."""
ENDS = {"|", ">", ">>", "2>", "&&", ";", "&", "<"}


DOWNLOADED = {
    "base": {"kowiki", "korquad"}, "small": {"kowiki"}, "korquad": {"korquad"}, "klue-ner": {"klue"}, "klue": {"klue"},
    "kobest": {"kobest"},
}  # fmt: skip
"""What has to be downloaded for the shipped recipes whose data is not in a clone."""


@pytest.fixture(scope="module")
def reviews_read_once() -> Iterator[None]:
    """Six recipes have the 200,000 reviews of NSMC: their examples are read from each file once."""
    read, examples = Nsmc.read, dict[tuple[str, Path], list[Any]]()

    def read_once(task: Nsmc, path: Path) -> list[Any]:
        key = (task.model_dump_json(), path)
        if key not in examples:
            examples[key] = read(task, path)
        return list(examples[key])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Nsmc, "read", read_once)
        yield


@pytest.mark.parametrize("name", recipe_file.shipped())
def test_shipped_recipe_is_valid_with_the_data_of_a_clone_or_says_what_to_download(
    name: str, kobert, reviews_read_once: None
) -> None:
    result = kobert("check", name)
    assert set(re.findall(r"kobert download (\w+)", result.out + result.err)) == DOWNLOADED.get(name, set())
    if name not in DOWNLOADED:
        assert (result.code, result.err) == (0, ""), result.err
        assert result.out.startswith(f"{name}: valid, ")


def test_every_option_of_a_shipped_recipe_is_valid_and_survives_its_dump() -> None:
    for name in recipe_file.shipped():
        loaded = Recipe.model_validate(recipe_file.load(name, []))
        # options that cannot change a result, such as the number of threads, are not in a dump
        assert Recipe.model_validate(loaded.dump()).dump() == loaded.dump(), name
        assert len(loaded.description) > 20, name


def test_every_row_of_the_result_tables_is_valid_and_no_two_are_the_same() -> None:
    folder = REPO / "docs/results/tables"
    rows = recipe_file.parse((folder / "rows.yaml").read_text(encoding="utf-8"))
    dumps = [
        Recipe.model_validate(recipe_file.load(str(folder / "recipe.yaml"), changes)).dump()
        for changes in rows.values()
    ]
    assert all(dumps.count(dump) == 1 for dump in dumps)


def test_an_empty_recipe_is_called_empty(tmp_path, kobert) -> None:
    (tmp_path / "mine.yaml").write_text("# nothing yet\n", encoding="utf-8")
    assert "mine.yaml is empty" in kobert("check", tmp_path / "mine.yaml").complaint


def documented_commands() -> list[tuple[str, str]]:
    """(file, command line) of every `kobert ...` in a fenced code block."""
    found = []
    for path in DOCUMENTS:
        for block in re.findall(r"^```[^\n]*\n(.*?)^```", path.read_text(encoding="utf-8"), re.M | re.S):
            for line in block.replace("\\\n", " ").splitlines():
                if match := re.match(r"\s*(?:\$ )?((?:[A-Z_]+=\S+ )*)kobert\s", line + " "):
                    found.append((path.name, line[match.end(1) :].strip().removeprefix("$ ")))
    return found


COMMANDS = documented_commands()


def test_every_documented_command_parses(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("key.txt").write_text("secret", encoding="utf-8")
    assert len(COMMANDS) > 30
    group = typer.main.get_command(main.app)
    for document, line in COMMANDS:
        parses(group, document, line)


def parses(group: Any, document: str, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    words = words[: min([i for i, word in enumerate(words) if word in ENDS], default=len(words))]
    if not words or words == ["--help"]:
        return
    context = group.make_context("kobert", list(words), resilient_parsing=False)
    name, command, rest = group.resolve_command(context, words)
    parsed = command.make_context(
        name, [word for word in rest if word != "--help"], parent=context, resilient_parsing="--help" in rest
    )
    given = parsed.params.get("recipe")
    if given and "--help" not in rest and not given.endswith((".yaml", ".yml")):
        assert given in recipe_file.shipped(), f"{document} names a recipe that is not shipped"
    for setting in parsed.params.get("setting") or []:
        assert "=" in setting


WRONG = {
    "pretain.total_tokens=1": ["pretain", "did you mean 'pretrain'"],
    "pretrain.totel_tokens=1": ["pretrain", "totel_tokens", "did you mean 'total_tokens'"],
    "pretrain.plan.lerning_rate=1": ["pretrain.plan", "lerning_rate", "did you mean 'learning_rate'"],
    "tokenizer.subword.vocabsize=1": ["tokenizer.subword", "vocabsize", "did you mean 'vocab_size'"],
    "corpus.sources.0.pth=x": ["corpus.sources.0", "pth", "did you mean 'path'"],
    "features.nsmc.max_lenght=64": ["features.nsmc", "max_lenght", "did you mean 'max_length'"],
    "finetune.nsmc.plan.epoch=1": ["finetune.nsmc.plan", "epoch", "did you mean 'epochs'"],
    "pretrain.objective=mlm_nps": ["pretrain.objective", "mlm_nps", "did you mean 'mlm_nsp'"],
    "corpus.sources.0.name=txt": ["corpus.sources.0", "txt", "did you mean 'text'"],
    "analysis.analyzer=kivi": ["analysis.analyzer", "kivi", "did you mean 'kiwi'"],
    "features.nsmc.task=nsmcc": ["features.nsmc.task", "nsmcc", "did you mean 'nsmc'"],
    "publish.nsmc.source=nsmcc": ["publish.nsmc.source", "nsmcc", "did you mean 'nsmc'"],
    "finetune.korqad.plan.epochs=1": ["finetune.korqad", "did you mean 'korquad'"],
    "pretrain.total_tokens=many": ["pretrain.total_tokens", "integer", "many"],
    "tokenizer.subword.vocab_size=many": ["tokenizer.subword.vocab_size", "integer", "many"],
    "pretrain.objective.mlm_probability=1.5": ["pretrain.objective.mlm_probability", "less than 1", "1.5"],
    "shards.held_out=0": ["shards.held_out", "greater than 0"],
    "corpus.deduplicate=perhaps": ["corpus.deduplicate", "DeduplicateOptions", "perhaps"],
    "corpus.sources=[]": ["corpus.sources", "at least one"],
    "pretrain.plan.schedule=square": ["pretrain.plan.schedule", "linear", "square"],
    "finetune.nsmc.seeds=[]": ["finetune.nsmc.seeds", "at least one"],
    "pretrain.architecture.num_attention_heads=5": ["pretrain", "num_attention_heads 5", "hidden_size 128"],
    "features.nsmc.max_length=512": ["features.nsmc.max_length", "512", "256 positions"],
    "pretrain.max_length=512": ["pretrain", "max_length 512", "max_position_embeddings 256"],
    "pretrain.batch_tokens=100": ["pretrain", "batch_tokens 100", "max_length 128"],
    "analysis.analyzer={name: whitespace, style: lemma}": ["analysis.analyzer", "no style 'lemma'", "surface"],
    "analysis.analyzer={name: whitespace, user_dictionary: w.tsv}": ["analysis.analyzer", "takes no user_dictionary"],
    "tokenizer.user_words=true": ["tokenizer.user_words", "analysis.analyzer.user_dictionary"],
    "finetune.nsmc={encoder: frozen, plan: {layerwise_lr_decay: 0.9}}": ["finetune.nsmc", "layerwise_lr_decay 0.9"],
    "finetune.nsmc.seeds=[1, 2, 1]": ["finetune.nsmc.seeds", "repeats a seed"],
    "features.nsmc={task: nsmc}": ["features.nsmc", "train names no file"],
    "corpus=": ["corpus"],
    "pretrain.total_tokens": ["pretrain.total_tokens", "key.key=value"],
    "=3": ["=3", "key.key=value"],
    "": ["key.key=value"],
    "pretrain.total_tokens.x=3": ["pretrain.total_tokens.x", "'total_tokens' is a value"],
    "corpus.sources.5.path=x": ["corpus.sources.5.path", "list of 1"],
    "corpus.sources.first.path=x": ["corpus.sources.first.path", "'first' is not an index"],
    "pretrain..total_tokens=3": ["pretrain"],
}


def test_wrong_setting_is_refused_in_one_line_that_names_it(corpora, kobert) -> None:
    for setting in WRONG:
        result = kobert("check", "tiny", "--set", f"data_dir={corpora}", "--set", setting)
        assert len(result.err.splitlines()) == 1
        assert result.out == ""
        for words in WRONG[setting]:
            assert words in result.complaint


def test_all_wrong_options_are_named_at_once() -> None:
    settings = [
        "shards.heldout=1",
        "shards.other=2",
        "pretrain.plan.optimiser=muon",
        "pretrain.plan.mixed_precision=no",
    ]
    with pytest.raises(ValidationError) as refused:
        Recipe.model_validate(recipe_file.load("tiny", settings))
    shards, of_plan = errors_of(refused.value)
    assert shards.startswith("shards: unknown key 'heldout' - did you mean 'held_out'?") and "key 'other'" in shards
    assert of_plan.startswith("pretrain.plan: unknown key 'optimiser' - did you mean 'optimizer'?")
    with pytest.raises(ValidationError) as refused:
        Recipe.model_validate(recipe_file.load("tiny", settings[3:]))
    assert errors_of(refused.value)[0].endswith("put such a name in quotes")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            "finetune.nsmc.epochs=2",
            "finetune.nsmc: unknown key 'epochs' - did you mean 'plan.epochs' or 'distill.epochs'?",
        ),
        (
            "pretrain.learning_rate=1",
            "pretrain: unknown key 'learning_rate' - did you mean 'plan.learning_rate'? (allowed",
        ),
        ("pretrain.plam=1", "pretrain: unknown key 'plam' - did you mean 'plan'? (allowed"),
        ("finetune.nsmc.share=1", "finetune.nsmc: unknown key 'share' (allowed: "),
        # of options that may have several types, the place is where a user wrote it, and not pydantic's name of a type
        ("features.nsmc.license=[MIT]", "features.nsmc.license: input should be a valid string, not ['MIT']"),
        ("features.nsmc.license={a: [MIT]}", "features.nsmc.license.a: input should be a valid string, not ['MIT']"),
        ("pretrain.base=no", "pretrain.base: input should be a valid string, not False; YAML reads"),
        ("corpus.cleaning.mask=x", "corpus.cleaning.mask: input should be a list, not 'x'"),
        ("corpus.sources=[{name: text}]", "corpus.sources.0.path: is missing"),
        ("features.nsmc.train=[a, [b]]", "features.nsmc.train.1: input should be a valid string, not ['b']"),
    ],
)
def test_an_error_names_the_place_and_the_group_that_an_option_belongs_to(setting: Any, said: Any) -> None:
    with pytest.raises(ValidationError) as refused:
        Recipe.model_validate(recipe_file.load("tiny", [setting]))
    assert errors_of(refused.value)[0].startswith(said), setting


@pytest.mark.parametrize(
    ("settings", "key_word"),
    [
        (["checkpoint_labels.bad=0"], "checkpoint_labels is for a checkpoint that is fine-tuned as it is"),
        (["tokenizer.subword={name: unigram, vocab_size: 3000}", "tokenizer.user_words=true"], "use wordpiece"),
        (["finetune.nsmc.encoder=frozen"], "whose encoder is frozen"),
        (["finetune.nsmc={ngrams: {}}", "publish.nsmc.dtype=bfloat16"], "but nsmc is a classifier over n-grams"),
        (
            ["features.qa={task: choice, train: [a]}", "finetune.qa={}", "publish.qa={source: qa, onnx: true}"],
            "publish.qa.onnx: multiple-choice models cannot be exported",
        ),
        (["pretrain.plan.use_regional_compilation=true"], "compiles nothing without torch_compile: true"),
        (["tokenizer.report.compare_with=nowhere"], "nowhere is no folder; name one that holds a tokenizer"),
    ],
)
def test_options_that_exclude_each_other_are_refused(settings: Any, key_word: str, corpora, kobert) -> None:
    options = [option for setting in (f"data_dir={corpora}", *settings) for option in ("--set", setting)]
    assert key_word in kobert("check", "tiny", *options).complaint


def test_a_distillation_needs_texts_to_label() -> None:
    content = recipe_file.load("tiny", ["finetune.soft={features: nsmc, distill: {teachers: [nsmc]}}"])
    content = {name: content[name] for name in ("features", "finetune")} | {"checkpoint": "klue/bert-base"}
    with pytest.raises(ValidationError) as refused:
        Recipe.model_validate(content)
    assert "finetune.soft.distill labels texts of the corpus, but the recipe has none" in errors_of(refused.value)[0]


def test_the_folder_of_a_run_is_no_recipe(tiny, kobert) -> None:
    assert "is a folder; give the recipe's name or YAML file" in kobert("check", tiny.run_dir).complaint


def test_a_repeated_key_is_refused(tmp_path, kobert) -> None:
    (tmp_path / "r.yaml").write_text("pretrain:\n  tokens: 1\n  tokens: 2\n", encoding="utf-8")
    assert "the key 'tokens' appears twice" in kobert("check", tmp_path / "r.yaml").complaint


def test_a_key_that_overrides_a_merged_one_is_no_repeated_key() -> None:
    text = (
        "a: &a {lr: 1, size: 2}\nb: {x: {<<: *a, lr: 3, y: {z: {<<: *a, lr: 4}}}}\nc: &c {<<: *a, lr: 5}\nd: {<<: *c}"
    )
    content = recipe_file.parse(text)
    assert content["b"]["x"] == {"lr": 3, "size": 2, "y": {"z": {"lr": 4, "size": 2}}}
    assert content["d"] == {"lr": 5, "size": 2}


def test_settings_are_read_as_yaml_and_laid_over_in_order() -> None:
    given = [
        "pretrain.plan.learning_rate=1e-4",
        "finetune.nsmc.seeds=[1, 2]",
        "corpus.sources.0.license=none",
        "x.y=1",
        "x.y=null",
    ]
    content = recipe_file.load("tiny", given)
    assert content["pretrain"]["plan"]["learning_rate"] == 0.0001
    assert content["finetune"]["nsmc"]["seeds"] == [1, 2]
    assert content["corpus"]["sources"][0]["license"] == "none"
    assert content["x"] == {"y": None}


def test_file_that_is_no_recipe_is_refused(tmp_path, kobert) -> None:
    for number, (text, said) in enumerate(
        [
            (b"corpus: [1,\n", "not YAML: line 2, column 1: expected the node content, but found the end of"),
            (b"corpus:\n  sources: {a: [1, 2}\n", "line 2, column 21: expected ',' or ']', but got '}' (while parsing"),
            (b"just text\n", "must be a mapping"),
            (b"", "must be a mapping"),
            (b"\xb0\xa1\xb3\xaa: 1\n", "not in UTF-8"),
            (b"description: no corpus\n", "neither corpus nor checkpoint"),
        ]
    ):
        place = tmp_path / str(number)
        place.mkdir()
        (place / "bad.yaml").write_bytes(text)
        result = kobert("check", place / "bad.yaml")
        assert len(result.err.splitlines()) == 1, (text, said)
        assert said in result.complaint, (text, said)
        assert "bad.yaml" in result.complaint, (text, said)


def test_the_recipe_base_is_what_its_comments_say() -> None:
    """The budget, the phases, and that length 128 comes first."""
    options = Recipe.model_validate(recipe_file.load("base", []))
    parts = options.pretrain.parts()
    assert sum(tokens for tokens, _ in parts) == options.pretrain.total_tokens == 360_000_000
    assert [part.batch_tokens for _, part in parts] == [32_768, 65_536, 131_072, 262_144, 262_144]
    assert [part.max_length for _, part in parts] == [128, 128, 128, 128, 512]
    max_tokens = options.pretrain.plan.max_tokens_per_device
    assert [-(-part.batch_tokens // max_tokens) for _, part in parts] == [1, 1, 1, 2, 2]
    assert options.finetune["nsmc"].seeds == options.finetune["korquad"].seeds == [1, 2, 3]
    assert list(options.finetune)[-1] == "nsmc-random", "the baseline is last, so that it is the one left out"
    assert options.tokenizer.subword.vocab_size < 2**16, "ids of two bytes"


@pytest.mark.parametrize(("name", "said"), [("tinny", "did you mean 'tiny'"), ("gone/a.yaml", "does not exist")])
def test_recipe_that_is_not_there_is_refused(name: Any, said: Any, kobert) -> None:
    assert said in kobert("check", name).complaint, (name, said)


def test_a_recipe_in_a_file_with_a_byte_order_mark_is_read(tmp_path, corpora, kobert) -> None:
    text = recipe_file.shipped()["tiny"].read_text(encoding="utf-8")
    (tmp_path / "marked.yaml").write_text("\ufeff" + text, encoding="utf-8")
    assert kobert("check", tmp_path / "marked.yaml", "--set", f"data_dir={corpora}").code == 0


def test_data_dir_comes_from_the_environment_where_the_recipe_has_none(monkeypatch, tmp_path, corpora, kobert) -> None:
    content = recipe_file.load("tiny", [])
    del content["data_dir"]
    import yaml

    (tmp_path / "none.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    monkeypatch.setattr(files, "CLONE", tmp_path)
    missing = kobert("check", tmp_path / "none.yaml").complaint
    assert "come with a clone of the repository" in missing and "`kobert download`" in missing
    assert "--set data_dir=PATH" in missing
    assert "KOBERT_DATA" in missing
    monkeypatch.setenv("KOBERT_DATA", str(corpora))
    assert kobert("check", tmp_path / "none.yaml").code == 0


def test_a_setting_changes_one_place_of_what_a_recipe_shares_by_an_anchor() -> None:
    before, after = (recipe_file.load("base", settings) for settings in ([], ["finetune.nsmc.plan.epochs=1"]))
    assert before["finetune"]["nsmc"]["plan"] == before["finetune"]["nsmc-random"]["plan"]
    assert after["finetune"]["nsmc"]["plan"]["epochs"] == 1
    assert after["finetune"]["nsmc-random"] == before["finetune"]["nsmc-random"]
