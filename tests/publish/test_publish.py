"""A published checkpoint is a folder that `transformers` loads in a process that cannot import this package."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from safetensors.torch import load_file, save_file

import kobert_pipeline as kobert
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.task import Task
from kobert_pipeline.files import read_json, read_json_with_digest, write_json, write_json_with_digest
from kobert_pipeline.finetune.inference_state import fine_tuned_for
from kobert_pipeline.finetune.model import add_match_types, load
from kobert_pipeline.pipeline.provenance import results_of, strip_local_paths
from kobert_pipeline.pipeline.stages import plan
from kobert_pipeline.publish import verify
from kobert_pipeline.publish.card_facts import CardFacts
from kobert_pipeline.publish.export import code_licence
from kobert_pipeline.publish.model_card import snippet
from kobert_pipeline.questions.pos_feature import POS_TYPES

KINDS = {
    "nsmc": "AutoModelForSequenceClassification",
    "korquad": "AutoModelForQuestionAnswering",
    "mlm": "AutoModelForPreTraining",
}
TEXTS = [
    "아버지가 방에 들어가셨다.",
    "재밌었어요ㅋㅋ  또 보고\t싶다!\n둘째 줄",
    "1443년 세종(世宗)",
    "",
    "[MASK]가 좋다",
    "띄어쓰기가안된문장",
]

BLOCK = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "kobert_pipeline":
            raise ImportError("kobert_pipeline must not be needed")
sys.meta_path.insert(0, Blocked())
"""
EVERYTHING = (
    BLOCK
    + """
import json, torch, transformers
from transformers import AutoTokenizer, pipeline
root, kinds, texts = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
found = {"ids": {}, "offsets": {}, "logits": {}, "loaded": []}
def load(**trust):
    try:
        found["loaded"].append(type(AutoTokenizer.from_pretrained(f"{root}/nsmc", **trust)).__name__)
    except Exception as error:
        found["loaded"].append(str(error).replace("\\n", " "))
sys.modules["kiwipiepy"] = None
load(trust_remote_code=True)
del sys.modules["kiwipiepy"]
load()
load(trust_remote_code=False)
load(trust_remote_code=True)
for name, auto in kinds.items():
    tokenizer = AutoTokenizer.from_pretrained(f"{root}/{name}", trust_remote_code=True)
    model = getattr(transformers, auto).from_pretrained(f"{root}/{name}").eval()
    encoded = tokenizer(texts, return_offsets_mapping=True)
    found["ids"][name], found["offsets"][name] = encoded["input_ids"], encoded["offset_mapping"]
    with torch.no_grad():
        outputs = model(**tokenizer(texts[0], return_tensors="pt"))
    found["logits"][name] = {key: value.tolist() for key, value in outputs.items() if "logits" in key}
trust = {"trust_remote_code": True}
found["classes"] = pipeline("text-classification", f"{root}/nsmc", **trust)(texts[:2], top_k=None)
found["filled"] = pipeline("fill-mask", f"{root}/mlm", **trust)("대한민국의 [MASK]는 서울이다.")
found["vectors"] = [len(v) for v in pipeline("feature-extraction", f"{root}/mlm", **trust)(texts[0])[0]]
import contextlib, io
found["printed"] = {}
for name, code in json.loads(sys.argv[4]).items():
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(code, {})
    found["printed"][name] = out.getvalue().strip()
print(json.dumps(found))
"""
)


@pytest.fixture(scope="module")
def elsewhere(tiny, fresh, tmp_path_factory) -> dict[str, Any]:
    """The outputs of copies of the three checkpoints in a fresh process without this package, and what each card's
    example prints there with the path of its folder filled in."""
    empty = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(tiny.run_dir / "publish", empty / "models")
    codes = {}
    for name in KINDS:
        code = re.search(
            r"```python\n(.*?)```", (empty / "models" / name / "README.md").read_text(encoding="utf-8"), re.S
        ).group(1)
        assert code.count("PATH/TO/THIS/FOLDER") == 1
        codes[name] = code.replace("PATH/TO/THIS/FOLDER", f"models/{name}")
    environment = {"HF_HOME": str(empty / "cache"), "HF_HUB_OFFLINE": "1", "PATH": "", "OMP_NUM_THREADS": "1"}
    given = (json.dumps(KINDS), json.dumps(TEXTS), json.dumps(codes))
    result = fresh(EVERYTHING, empty / "models", *given, cwd=empty, env=environment)
    assert result.code == 0, result.err
    return json.loads(result.out.splitlines()[-1])


@pytest.fixture(params=KINDS)
def folder(request: pytest.FixtureRequest, tiny) -> Path:
    return tiny.run_dir / "publish" / request.param


def metadata(folder: Path) -> dict[str, Any]:
    return yaml.safe_load((folder / "README.md").read_text(encoding="utf-8").split("---\n")[1])


def test_folder_holds_what_the_contract_lists_and_no_plain_tokenizer(folder) -> None:
    names = {path.name for path in folder.iterdir()}
    wanted = {
        "config.json",
        "model.safetensors",
        "tokenizer_config.json",
        "morphemes.json",
        "README.md",
        "training_manifest.json",
    }
    assert wanted <= names
    assert "tokenizer.json" not in names
    assert not [name for name in names if name.endswith((".bin", ".pkl", ".pt", ".part"))]
    code = {name for name in names if name.endswith(".py")}
    assert {"morpheme_tokenizer.py", "analyzer_loader.py", "segmentation.py", "kiwi.py"} <= code
    assert not [name for name in code if "kobert_pipeline" in (folder / name).read_text(encoding="utf-8")]


def test_tokenizer_config_records_analyzer_and_version(folder) -> None:
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert config["analyzer"] == "kiwi"
    assert re.fullmatch(r"kiwipiepy [\d.]+, model [\d.]+", config["analyzer_version"])
    assert "morpheme_tokenizer.MorphemeTokenizer" in config["auto_map"]["AutoTokenizer"]
    model = json.loads((folder / "config.json").read_text())
    trained = {"nsmc": 64, "korquad": 256, "mlm": model["max_position_embeddings"]}
    assert config["model_max_length"] == trained[folder.name], (
        "texts are cut where fine-tuning did, or at the last position"
    )


def test_ids_and_offsets_in_a_fresh_process_equal_ours(elsewhere, tiny) -> None:
    for name in KINDS:
        from kobert_pipeline.inference.loading import load_tokenizer

        encoded = load_tokenizer(tiny.run_dir / "tokenizer")(TEXTS, return_offsets_mapping=True)
        assert elsewhere["ids"][name] == encoded["input_ids"], name
        assert elsewhere["offsets"][name] == [[list(span) for span in row] for row in encoded["offset_mapping"]], name


def test_logits_in_a_fresh_process_equal_those_of_the_trained_model(elsewhere, tiny) -> None:
    for name in KINDS:
        import torch
        import transformers

        from kobert_pipeline.inference.loading import load_tokenizer

        model = tiny.run_dir / ("pretrain/model" if name == "mlm" else f"finetune/{name}/1/model")
        loaded = getattr(transformers, KINDS[name]).from_pretrained(model).eval()
        with torch.no_grad():
            outputs = loaded(**load_tokenizer(tiny.run_dir / "tokenizer")(TEXTS[0], return_tensors="pt"))
        found = elsewhere["logits"][name]
        assert set(found) == {key for key in outputs if "logits" in key}, name
        for key, value in found.items():
            np.testing.assert_allclose(np.array(value), outputs[key].numpy(), atol=1e-5)


def test_published_ids_equal_the_shards_on_every_document(tiny) -> None:
    from kobert_pipeline.analysis.analyzed import read_analysis
    from kobert_pipeline.corpus.document import document_parts, in_split
    from kobert_pipeline.inference.loading import load_tokenizer
    from kobert_pipeline.shards.format import open_shard

    tokenizer = load_tokenizer(tiny.run_dir / "publish" / "mlm")
    share = json.loads((tiny.run_dir / "shards" / "manifest.json").read_text())["options"]["held_out"]
    checked = 0
    for part in document_parts(tiny.run_dir / "analysis"):
        documents = [row.document for row in read_analysis(part)]
        for split in ("train", "held_out"):
            shard = open_shard(tiny.run_dir / "shards", f"{split}-{part.stem.removeprefix('part-')}")
            texts = [document.text for document in documents if in_split(document.id, share) == (split == "held_out")]
            assert len(texts) == len(shard.ordered)
            for number, text in enumerate(texts):
                stored = shard.ids[shard.documents[number] : shard.documents[number + 1]].tolist()
                assert tokenizer(text, add_special_tokens=False)["input_ids"] == stored
                checked += 1
    assert checked == 82


def test_text_classification_pipeline_names_the_labels(elsewhere) -> None:
    for scores in elsewhere["classes"]:
        assert {score["label"] for score in scores} == {"negative", "positive"}
        assert sum(score["score"] for score in scores) == pytest.approx(1)


def test_fill_mask_pipeline_fills_with_tokens_of_the_vocabulary(elsewhere, tiny) -> None:
    from kobert_pipeline.inference.loading import load_tokenizer

    tokenizer = load_tokenizer(tiny.run_dir / "tokenizer")
    assert len(elsewhere["filled"]) == 5
    assert all(guess["token"] < len(tokenizer) and 0 < guess["score"] < 1 for guess in elsewhere["filled"])


def test_feature_extraction_pipeline_gives_a_vector_per_token(elsewhere) -> None:
    assert set(elsewhere["vectors"]) == {32}
    assert len(elsewhere["vectors"]) == len(elsewhere["ids"]["mlm"][0])


def test_tokenizer_loads_only_if_its_code_is_trusted_and_kiwipiepy_installed(elsewhere) -> None:
    missing, without, refused, trusted = elsewhere["loaded"]
    assert "pip install kiwipiepy" in missing
    assert without == refused and "trust_remote_code=True" in refused
    assert trusted == "MorphemeTokenizer"


def test_card_metadata_is_what_the_hub_reads(folder, tiny) -> None:
    """`huggingface_hub` itself reads the card; its results are the manifest's scores."""
    from huggingface_hub import ModelCard

    data = ModelCard.load(folder / "README.md").data
    assert data.language == "ko"
    assert data.license == "apache-2.0"
    assert data.library_name == "transformers"
    assert (
        data.pipeline_tag
        == {"nsmc": "text-classification", "korquad": "question-answering", "mlm": "fill-mask"}[folder.name]
    )
    if folder.name == "mlm":
        assert not data.eval_results
        return
    scores = json.loads((tiny.run_dir / "finetune" / folder.name / "1" / "manifest.json").read_text())["counts"]["test"]
    assert {result.metric_type: result.metric_value for result in data.eval_results} == {
        k: round(v, 2) for k, v in scores.items()
    }
    assert metadata(folder)["model-index"][0]["name"] == f"tiny-{folder.name}"


def test_card_names_data_licences_recipe_and_limits(folder, tiny) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    cc0 = "[CC0-1.0](https://creativecommons.org/publicdomain/zero/1.0/)"
    assert rf"documents/\*.txt |  | {cc0}" in text
    assert "`tiny`" in text
    assert "Intended use and limits" in text
    assert "bert, 1 layers, hidden size 32" in text
    if folder.name == "nsmc":
        report = tiny.manifests()["finetune/nsmc/1"]["counts"]["test_classification_report"]
        for row, counts in zip(report["classes"], report["confusion_matrix"], strict=True):
            assert f"| {row['label']} | {row['precision']:.2f} |" in text
            assert f"| {row['label']} | {counts[0]} | {counts[1]} |" in text
        sizes = tiny.manifests()["features/nsmc"]["counts"]
        for split, said in (("train", "train"), ("dev", "dev (to choose the model)"), ("test", "the final evaluation")):
            assert f"| examples in {said} | {sizes[f'{split}_examples']} |" in text
        assert ModelCard(text).data.widget == [{"text": "배우들 연기가 정말 좋았다"}]
        assert "| labels | negative, positive |" in text and f"| reviews_test.txt |  | {cc0} | final scores |" in text
    assert "{name}" not in text
    assert "None" not in re.sub(r"```.*?```", "", text, flags=re.S)


@pytest.mark.parametrize(("threshold", "answers"), [(1e6, True), (-1e6, False)])
def test_the_card_of_a_model_that_may_find_no_answer_gives_what_predict_gives(
    threshold, answers, tiny, tmp_path, capsys
) -> None:

    folder = shutil.copytree(
        tiny.run_dir / "publish" / "korquad", tmp_path / "mrc", ignore=shutil.ignore_patterns("manifest.json")
    )
    config = read_json(folder / "config.json")
    state = config.pop("task_specific_params")["korquad"]
    write_json(
        folder / "config.json", config | {"task_specific_params": {"mrc": state | {"null_threshold": threshold}}}
    )
    kept = fine_tuned_for(read_json(folder / "config.json"))[1]
    facts = CardFacts("", "", "", "", KINDS["korquad"], [], {}, "kiwi", "", "", inference_options=kept)
    code = snippet(facts).replace("PATH/TO/THIS/FOLDER", str(folder))
    exec(code.replace("from_pretrained(folder)", "from_pretrained(folder).eval()"), {})
    found = kobert.load(folder).predict(["한글은 세종대왕이 1443년에 만들었다."], "한글은 누가 만들었는가?")[0][
        "answer"
    ]
    assert capsys.readouterr().out.strip() == found
    assert bool(found) is answers


def test_the_card_reads_questions_as_predict_does(tiny, tmp_path, capsys) -> None:
    """With every option that changes the inputs or the spans, and weights so large that each of them matters."""

    example = {
        "question": "한글은 누가 언제 만들었는가?",
        "context": "한글은 세종대왕이 1443년에 만들었다.\n세종은 1446년 한글을 반포하였고, 학자 여덟 명이 책을 썼다.",
    }
    answers = set()
    for number, options in enumerate(
        [
            {},
            {"question_token": True},
            {"exact_match_feature": True},
            {"max_answer_tokens": 2, "exact_match_feature": True},
            {"exact_match_feature": True, "pos_feature": True},
            {"whole_words": True},
            {"question_token": True, "exact_match_feature": True, "whole_words": True, "max_answer_tokens": 4},
        ]
    ):
        folder = shutil.copytree(
            tiny.run_dir / "publish" / "korquad", tmp_path / str(number), ignore=shutil.ignore_patterns("manifest.json")
        )
        model = load(folder)
        add_match_types(model, POS_TYPES)
        torch.manual_seed(1)
        for parameter in (model.qa_outputs.weight, model.base_model.embeddings.token_type_embeddings.weight):
            torch.nn.init.normal_(parameter)
        model.config.task_specific_params["korquad"] |= options
        model.save_pretrained(folder)
        kept = fine_tuned_for(read_json(folder / "config.json"))[1]
        facts = CardFacts(
            "", "", "", "", KINDS["korquad"], [], {}, "kiwi", "", "", inference_options=kept, example=example
        )
        code = snippet(facts).replace("PATH/TO/THIS/FOLDER", str(folder))
        exec(code.replace("from_pretrained(folder)", "from_pretrained(folder).eval()"), {})
        [found] = kobert.load(folder).predict([example["context"]], example["question"])
        assert capsys.readouterr().out.strip() == found["answer"] != "", options
        answers.add(found["answer"])
    assert len(answers) > 3


def test_code_printed_in_the_card_runs_once_its_folder_is_named(elsewhere, tiny) -> None:

    printed = elsewhere["printed"]
    assert "'label': " in printed["nsmc"]
    assert "'token_str': " in printed["mlm"]
    found = kobert.load(tiny.run_dir / "publish" / "korquad").predict(
        ["한글은 세종대왕이 1443년에 만들었다."], "한글은 누가 만들었는가?"
    )
    assert printed["korquad"] == found[0]["answer"] != ""


def test_training_manifest_has_recipe_options_counts_and_versions(folder) -> None:
    history = json.loads((folder / "training_manifest.json").read_text(encoding="utf-8"))
    assert history["recipe"]["pretrain"]["total_tokens"] == 60_000
    stages = {"corpus", "analysis", "tokenizer", "shards", "pretrain"} | (
        {f"features/{folder.name}", f"finetune/{folder.name}/1"} if folder.name != "mlm" else set()
    )
    assert set(history["stages"]) == stages
    for one in history["stages"].values():
        assert one["counts"] and one["versions"]


def test_nothing_published_contains_a_path_of_the_machine(folder, tiny, corpora) -> None:
    texts = [path.read_text(encoding="utf-8") for path in folder.iterdir() if path.suffix in (".json", ".md", ".py")]
    assert not [text[:60] for text in texts if str(corpora) in text or str(tiny.run_dir) in text]


def test_missing_weights_are_refused(tiny, tmp_path) -> None:
    model = Path(shutil.copytree(tiny.run_dir / "finetune" / "nsmc" / "1" / "model", tmp_path / "model"))
    weights = load_file(model / "model.safetensors")
    del weights["classifier.bias"]
    save_file(weights, model / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=r"has no weights for classifier\.bias; run the stage that trained it again"):
        verify.outputs_here([tiny.run_dir / "tokenizer"], model, KINDS["nsmc"])


def test_other_outputs_of_a_fresh_process_are_refused(tmp_path, monkeypatch) -> None:
    from kobert_pipeline.publish import verify as verification

    here = {"ids": [[2, 3]], "logits": [[[0.5, 0.25]]]}
    monkeypatch.setattr(verification, "outputs_here", lambda *of: here)
    for changed, said in [
        ({}, None),
        ({"ids": [[2, 4]]}, "other token ids"),
        ({"logits": [[[0.5, 0.26]]]}, "differ by 0.01"),
        ({"logits": [[[0.5, float("nan")]]]}, "not finite"),
    ]:
        monkeypatch.setattr(verification, "outputs_in_fresh_process", lambda *of, there=changed: here | there)
        if said is None:
            found = verification.verify(tmp_path, tmp_path, KINDS["nsmc"])
            assert found == {"verified_texts": len(verification.SAMPLES), "max_logit_difference": 0.0}
        else:
            with pytest.raises(UserError, match=said):
                verification.verify(tmp_path, tmp_path, KINDS["nsmc"])


def test_a_folder_that_does_not_load_in_a_fresh_process_is_refused_with_the_reason(tmp_path) -> None:
    from kobert_pipeline.publish.verify import outputs_in_fresh_process

    with pytest.raises(UserError, match=r"does not load in a fresh process: \w+"):
        outputs_in_fresh_process(tmp_path, [tmp_path], KINDS["nsmc"])


@pytest.mark.slow
def test_folder_that_gives_other_logits_does_not_verify(tiny, tmp_path, monkeypatch) -> None:
    """The fresh process has a cache of code of its own: in the shared one two publishing processes would overwrite each
    other's modules, which go by the folder's name."""
    from safetensors.numpy import load_file, save_file

    from kobert_pipeline.publish import verify as verification
    from kobert_pipeline.publish.verify import verify

    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "cache"))

    folder = Path(shutil.copytree(tiny.run_dir / "publish" / "nsmc", tmp_path / "nsmc"))
    weights = load_file(folder / "model.safetensors")
    weights["classifier.bias"] = weights["classifier.bias"] + np.float32(0.01)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match="differ by"):
        verify(folder, tiny.run_dir / "finetune" / "nsmc" / "1" / "model", KINDS["nsmc"])
    assert not (tmp_path / "cache").exists()
    here = verification.outputs_here
    monkeypatch.setattr(
        verification, "outputs_in_fresh_process", lambda folder, tokenizers, auto: here(tokenizers, folder, auto)
    )
    weights["classifier.bias"] = weights["classifier.bias"] * np.float32("nan")
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match="not finite"):
        verify(folder, folder, KINDS["nsmc"])


def test_paths_are_published_as_names_only() -> None:
    given = {"path": ["/data/corpora/a.txt", "b/c.txt"], "base": "/models/mine", "n": 1, "label": "긍정/부정"}
    assert strip_local_paths(given, Path("/data")) == {
        "path": ["corpora/a.txt", "b/c.txt"],
        "base": "mine",
        "n": 1,
        "label": "긍정/부정",
    }
    counts = {"sources": {"/models/secret/*.txt, /data/b.txt": {"documents": 3}, "wiki.txt": {}}}
    assert strip_local_paths(counts, Path("/data")) == {"sources": {"*.txt, b.txt": {"documents": 3}, "wiki.txt": {}}}
    same_name = {"/x/one/a.txt": 1, "/y/two/a.txt": 2, "/data/a.txt": 3}
    assert strip_local_paths(same_name, Path("/data")) == {"a.txt": 1, "a.txt (2)": 2, "a.txt (3)": 3}


def test_best_seed_on_dev_is_published_and_the_card_gives_all_seeds(tiny, tmp_path, kobert) -> None:
    """Two seeds, whose scores are set by hand so that the better one on dev is the worse one on test."""
    run_dir = tiny.copy_before(tmp_path / "runs" / "tiny", "publish")
    settings = [
        "finetune={nsmc: {seeds: [1, 2], baseline: none, plan: {epochs: 1, batch_size: 16, learning_rate: 5e-4}}}",
        "publish={nsmc: {source: nsmc, onnx: false}}",
    ]
    arguments = [part for setting in settings for part in ("--set", setting)]
    assert kobert("finetune", tiny.recipe, "--run-dir", run_dir, *arguments).code == 0
    for seed, dev, test in ((1, 40.0, 90.0), (2, 60.0, 50.0)):
        path = run_dir / "finetune" / "nsmc" / str(seed) / "manifest.json"
        made = read_json_with_digest(path)
        made["counts"] |= {"dev": {"accuracy": dev}, "test": {"accuracy": test}}
        write_json_with_digest(path, made)
    assert kobert("publish", tiny.recipe, "--run-dir", run_dir, *arguments).code == 0
    published = run_dir / "publish" / "nsmc"
    second = run_dir / "finetune" / "nsmc" / "2" / "model"
    assert (published / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()
    assert metadata(published)["model-index"][0]["results"][0]["metrics"] == [
        {
            "type": "accuracy",
            "value": 70.0,
            "args": {"seeds": 2, "min": 50.0, "max": 90.0, "standard_deviation": 28.28, "these_weights": 50.0},
        }
    ]
    card = (published / "README.md").read_text(encoding="utf-8")
    assert "| 70.00 | 28.28 | 50.00 to 90.00 | 2 |" in card
    assert "those of seed 2, the best on dev; their own scores: accuracy 50.00." in card


def test_a_frozen_encoder_is_no_control_of_a_tuned_one(corpora, tmp_path) -> None:
    tagging = "{task: ner, train: ner/train.txt, test: ner/test.txt}"
    tuned = "n: {}, control: {features: n, init: scratch}, frozen: {features: n, init: scratch, encoder: frozen}"
    settings = [
        f"data_dir={corpora}",
        f"features={{n: {tagging}}}",
        f"finetune={{{tuned}}}",
        "publish={n: {source: n, onnx: false}}",
    ]
    recipe, _ = plan("tiny", settings, tmp_path, None)
    assert list(recipe.controls(recipe.publish["n"])) == ["control"]


def test_a_control_from_scratch_is_in_the_card_once_it_is_finished(tiny, tmp_path, kobert) -> None:
    """A control that was not run does not prevent publishing; once it is finished, the card is out of date."""
    run_dir = tiny.copy_before(tmp_path / "runs" / "tiny", "publish")
    plan = "{epochs: 1, batch_size: 16, learning_rate: 5e-4}"
    settings = [
        f"finetune.nsmc-random={{features: nsmc, init: scratch, plan: {plan}}}",
        "publish={nsmc: {source: nsmc, onnx: false}}",
    ]
    arguments = ["--run-dir", run_dir, *(part for setting in settings for part in ("--set", setting))]
    card = run_dir / "publish" / "nsmc" / "README.md"
    assert kobert("publish", tiny.recipe, *arguments).code == 0
    assert "from scratch (`nsmc-random`)" not in card.read_text(encoding="utf-8")
    assert kobert("finetune", tiny.recipe, *arguments).code == 0
    assert "its input controls was added" in kobert("publish", tiny.recipe, *arguments).complaint
    assert kobert("publish", tiny.recipe, *arguments, "--redo").code == 0
    score = json.loads((run_dir / "finetune" / "nsmc-random" / "1" / "manifest.json").read_text())["counts"]["test"][
        "accuracy"
    ]
    assert f"| reviews_test.txt (test) | from scratch (`nsmc-random`) | accuracy | {score:.2f} | -" in card.read_text(
        encoding="utf-8"
    )
    assert metadata(card.parent)["model-index"][0]["results"][0]["metrics"][0]["args"]["random_weights_mean"] == round(
        score, 2
    )
    # a control of another recipe is none of this one
    changed = [str(argument).replace("epochs: 1", "epochs: 2") for argument in arguments]
    complaint = kobert("publish", tiny.recipe, *changed, "--redo").complaint
    assert "nsmc-random/1 was created" in complaint and "epochs" in complaint
    # a control with `test: false` has no score beside the published one
    control, folder = run_dir / "finetune" / "nsmc-random" / "1", tmp_path / "unread"
    record = read_json(control / "manifest.json")
    folder.mkdir()
    write_json_with_digest(folder / "manifest.json", record | {"counts": {"dev": record["counts"]["dev"]}})
    tested = {1: read_json(run_dir / "finetune" / "nsmc" / "1" / "manifest.json")}
    both = results_of("nsmc", Task.choose("nsmc"), tested, {"read": [control], "unread": [folder]}, {})
    assert both.split == "test" and list(both.controls) == ["read"]


def test_what_libraries_print_before_the_outputs_is_passed_over(tmp_path: Path, monkeypatch) -> None:
    done = subprocess.CompletedProcess([], 0, stdout='loading...\n{"ids": [[1]]}\n', stderr="")
    monkeypatch.setattr(verify.subprocess, "run", lambda *_, **__: done)
    assert verify.outputs_in_fresh_process(tmp_path, [tmp_path], KINDS["nsmc"]) == {"ids": [[1]]}


def test_code_of_a_clone_that_is_not_installed_has_its_licence_too(monkeypatch) -> None:
    monkeypatch.setattr("kobert_pipeline.publish.export.distributions", lambda name: iter(()))
    assert code_licence().endswith("https://www.apache.org/licenses/LICENSE-2.0")


def test_the_licence_is_that_of_the_installed_package_where_a_clone_has_records_of_its_own(
    tmp_path: Path, monkeypatch
) -> None:
    records = tmp_path / "kobert_pipeline.egg-info"
    records.mkdir()
    (records / "PKG-INFO").write_text("Name: kobert-pipeline\nVersion: 0\n", encoding="utf-8")
    expected = code_licence()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert code_licence() == expected
