"""The model card, read back by `huggingface_hub`: means, spread, controls, data, cost."""

import math
import shutil
import statistics
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import ModelCard

from kobert_pipeline.features.stage import FeaturesOptions
from kobert_pipeline.files import write_json
from kobert_pipeline.finetune.ngrams import CONFIG, Ngrams
from kobert_pipeline.pipeline.provenance import card_counts, describe_results, known_datasets
from kobert_pipeline.publish import ngrams
from kobert_pipeline.publish.card_facts import CardFacts, Results, RoundingCost
from kobert_pipeline.publish.card_results import rules_text, thresholds_text
from kobert_pipeline.publish.costs import Cost, costs
from kobert_pipeline.publish.licences import NOT_STATED, file_row, link
from kobert_pipeline.publish.model_card import auto_class_of, model_card, snippet
from kobert_pipeline.tokenizer.loading import load_tokenizer
from kobert_pipeline.training.weight_files import NGRAMS

SCORES = {"accuracy": [87.09, 87.27, 87.36], "macro_f1": [87.0, 87.2, 87.3]}
CONTROLS = {
    "nsmc-random": {"accuracy": [85.3, 85.4], "macro_f1": [85.2, 85.3]},
    "worse": {"accuracy": [80.0], "macro_f1": [79.0]},
}
SOURCES = [
    {"path": "wiki.txt", "license": "CC BY-SA 3.0", "use": "pretrain"},
    {"path": "train.txt", "license": "CC0-1.0", "use": "fine-tune"},
]
FACTS = CardFacts(
    name="mini-nsmc", recipe="mini", description="What it is.", license="cc-by-sa-4.0",
    auto_class="AutoModelForSequenceClassification",
    sources=SOURCES, counts={"documents": "3"}, analyzer="kiwi", style="surface", library="kiwipiepy",
    results=Results("nsmc", "nsmc", "test", SCORES, CONTROLS), costs=[Cost("pretrain", 2.0, "H200"),
    Cost("finetune/nsmc", 1.0, "H200")],
)  # fmt: skip


SECTIONS = ("Results", "How it was made", "Data", "Cost", "Intended use and limits", "Licence and citation")


def read(facts: CardFacts) -> ModelCard:
    return ModelCard(model_card(facts))


def test_model_index_holds_means_spread_and_the_best_control() -> None:
    found = {result.metric_name or result.metric_type: result for result in read(FACTS).data.eval_results or []}
    assert set(found) == set(SCORES)
    for name, values in SCORES.items():
        result = found[name]
        assert result.metric_value == pytest.approx(statistics.mean(values), abs=0.005)
        assert result.metric_args["standard_deviation"] == pytest.approx(statistics.stdev(values), abs=0.005)
        assert (result.metric_args["seeds"], result.metric_args["min"], result.metric_args["max"]) == (
            3,
            min(values),
            max(values),
        )
        assert result.metric_args["random_weights"] == "nsmc-random"
        assert result.metric_args["random_weights_mean"] == pytest.approx(
            statistics.mean(CONTROLS["nsmc-random"][name]), abs=0.005
        )
        assert (result.dataset_type, result.dataset_split, result.task_type) == ("nsmc", "test", "text-classification")
    assert found["macro_f1"].metric_type == "f1"


def test_the_hub_writes_the_card_back_as_it_was() -> None:
    """Nothing in the metadata is lost or changed by its parser."""
    card = read(FACTS)
    assert ModelCard(str(card)).data.to_dict() == card.data.to_dict()
    assert card.data.model_name == "mini-nsmc"


def test_the_table_shows_every_control_and_its_spread() -> None:
    text = read(FACTS).text
    assert "| nsmc (test) | pretrained | accuracy | 87.24 | 0.14 | 87.09 to 87.36 | 3 |" in text
    assert "| nsmc (test) | from scratch (`nsmc-random`) | accuracy | 85.35 | 0.07 | 85.30 to 85.40 | 2 |" in text
    assert "| nsmc (test) | from scratch (`worse`) | accuracy | 80.00 | - | 80.00 to 80.00 | 1 |" in text


def test_a_card_without_controls_says_what_is_not_known() -> None:
    card = read(replace(FACTS, results=replace(FACTS.results, controls={})))
    assert "what pretraining added is not known" in card.text
    assert "random_weights" not in str(card.data.eval_results)


def test_the_card_says_which_tokens_of_plain_the_model_knows() -> None:
    assert "plain/" not in read(FACTS).text
    beside = read(replace(FACTS, plain=True, plain_agreement=0.8)).text
    assert "was not trained on the tokens" in beside and "trust_remote_code=True" in beside.partition("## Results")[0]
    own = read(replace(FACTS, plain_is_own=True, plain_share=0.3, plain_agreement=0.8)).text
    assert "needs no analyzer and no code" in own and "30% of the training examples" in own and "80.0%" in own
    assert own.count("trust_remote_code=True") == 1, "only where the tokenizer with the analyzer is spoken of"


def test_data_names_files_licences_and_uses_the_permission_and_what_is_not_stated() -> None:
    text = read(FACTS).text
    assert "| wiki.txt |  | [CC BY-SA 3.0](https://creativecommons.org/licenses/by-sa/3.0/) | pretrain |" in text
    assert "| train.txt |  | [CC0-1.0](https://creativecommons.org/publicdomain/zero/1.0/) | fine-tune |" in text
    assert "no licence is stated" not in text and "in its publisher's words" not in text
    for licence in (NOT_STATED, "research only"):
        unknown = [{"path": "x", "license": licence, "use": "pretrain"}]
        warned = read(replace(FACTS, sources=unknown, permission="Agreed by letter.")).text
        assert "Where no licence is stated, or one that kobert-pipeline does not know" in warned
        assert "in its publisher's words: Agreed by letter." in warned


def test_costs_add_up_seeds_and_count_every_device() -> None:
    gpu, cpu = {"name": "H200", "count": 4}, {"name": "CPU (some)", "count": 1}
    made = {
        "corpus": {"seconds": 360, "device": cpu},
        "pretrain": {"seconds": 1800, "device": gpu},
        "finetune/nsmc/1": {"seconds": 600, "device": gpu},
        "finetune/nsmc/2": {"seconds": 1200, "device": cpu},
        "shards": {"seconds": 36},
    }
    assert costs(made) == [
        Cost("corpus", 0.1, "CPU (some)"),
        Cost("pretrain", 2.0, "4 x H200"),
        Cost("finetune/nsmc (2 jobs)", pytest.approx(600 * 4 / 3600 + 1200 / 3600), "4 x H200, CPU (some)"),
        Cost("shards", 0.01, "not recorded"),
    ]


def test_how_the_weights_were_chosen_is_true_of_this_model() -> None:
    assert "picked on a dev split, and the test set was read once per run, at its end." in read(FACTS).text
    assert "no test set was read." in read(replace(FACTS, results=replace(FACTS.results, split="dev"))).text
    for split, expected in (("dev", True), ("test", False)):
        made = read(replace(FACTS, results=replace(FACTS.results, split=split, made_for_dev=1200))).text
        assert ("1,200 examples of this dev set were made from the corpus by rules" in made) is expected
    scratch = read(replace(FACTS, results=replace(FACTS.results, controls={}, from_scratch=True))).text
    assert "| nsmc (test) | from scratch | accuracy |" in scratch and "what pretraining added" not in scratch
    rules = read(replace(FACTS, inference_options={"answer_priors": {"type": 8.0, "overlap": 12.5}})).text
    assert "(`answer_priors` of the config: type 8, overlap 12.5): rules that add to the scores of answers" in rules
    assert "not learned" not in read(FACTS).text
    pretrained = read(replace(FACTS, results=None, auto_class="AutoModelForMaskedLM")).text
    assert "dev split" not in pretrained and "test set" not in pretrained and "held-out loss above" in pretrained


HOSTILE = [
    "a|b", "a\\|b", "\\", "x\ny", "---", "a\n---\nb", "a\r\n---\r\nb", "`x", "```", "a```\n# b", "~~~\nx", "key: value",
    "# h", "name #",
    "| a | b |", "😀 이모지",
    '"q"', "'s'", "- list", "null", "1e5", "yes", "~", "<b>", "<!-- x", "a <!-- b", "<script>",
    "*a*", "_a_",
    "a&amp;b",    "\x85nel", "\u2028x", "\ufeffbom", "!!int abc", "%dir", "@x", "&a", "*a", "\ttab\t", "", " lead",
    "가" * 300, "[x](y)",
    "[x]: y", "\x07", "...",    "a\n===", "a\n-", "    four", "kowiki-*-pages_*.xml", "snake_case_name", "a||b",
    "`a|b`", "a | b\n--- | ---\n1 | 2", ":-- | :-:", "> # q\n- > 1. # h", "1. ```",
]  # fmt: skip


def rendered(text: str) -> tuple[list[str], list[list[str]], list[str]]:
    """Headings, tables (their cells in reading order) and the languages of code blocks, by a parser of GitHub's
    Markdown."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    shown = lambda token: "".join(child.content or " " for child in token.children or [])  # noqa: E731
    after = list(pairwise(tokens))
    headings = [shown(inner) for token, inner in after if token.type == "heading_open"]
    tables: list[list[str]] = []
    for token, inner in after:
        if token.type == "table_open":
            tables.append([])
        elif token.type in ("th_open", "td_open"):
            tables[-1].append(shown(inner))
    return headings, tables, [token.info for token in tokens if token.type == "fence"]


def test_hostile_names_and_descriptions_break_neither_the_metadata_nor_the_text() -> None:
    """No metadata is lost; headings, code and tables are those of a card with harmless names, cell by cell."""
    for name in HOSTILE:
        scores = {"accuracy": [90.0]}
        facts = replace(
            FACTS, name=name, recipe=name, description=name, permission=name, counts={"labels": name, "documents": "3"},
            license=name, author=name, selection=name, versions={"kobert-pipeline": name}, year=name,
            sources=[{"path": name, "license": name, "use": "pretrain"}], costs=[Cost(name, 1.0, name)],
            results=Results(name, "nsmc", "test", scores, {name: scores}, "1", {"accuracy": 90.0}),
        )  # fmt: skip
        content = model_card(facts)
        card = ModelCard(content)
        # the Hub's own writer loses this character
        assert card.data.to_dict() == ModelCard(str(card)).data.to_dict() or name == "\x85nel"
        found = (card.data.eval_results or [])[0]
        assert (card.data.model_name, found.dataset_name, found.metric_args["random_weights"]) == (
            name,
            f"{name} (test)",
            name,
        )
        headings, tables, languages = rendered(card.text)
        line = " ".join(name.split())
        assert headings == [line, *SECTIONS], name
        assert languages == ["python", "bibtex"], name
        assert [len(cells) for cells in tables] == [3 * 7, 3 * 2, 2 * 4, 2 * 3], name
        row = tables[2][4:]
        assert row == [line, "", line, "pretrain"], name
        assert tables[1][2:4] == ["labels", line], name


def test_the_example_keeps_to_words_only_where_they_are_morphemes() -> None:
    """As `kobert predict` does, which ignores `whole_words` where words are eojeols."""
    facts = replace(FACTS, auto_class="AutoModelForQuestionAnswering", inference_options={"whole_words": True})
    for analyzer, style, masks in (("kiwi", "surface", True), ("kiwi", "none", False), ("whitespace", "surface", False),
                                   ("", "", False)):  # fmt: skip
        assert ("word_ids" in snippet(replace(facts, analyzer=analyzer, style=style))) == masks, (analyzer, style)


def test_each_head_has_its_auto_class() -> None:
    """A discriminator of ELECTRA cannot fill masks, although its class has the suffix of models that can."""
    for architecture, auto_class in {
        "ElectraForPreTraining": "AutoModel",
        "BertForPreTraining": "AutoModelForPreTraining",
        "ElectraForMaskedLM": "AutoModelForMaskedLM",
        "GPT2LMHeadModel": "AutoModelForCausalLM",
    }.items():
        assert auto_class_of({"architectures": [architecture]}) == auto_class, architecture


PARTS = ("network_alone", "network_and_priors", "priors_alone")
ABLATION = {part: {"f1": [value, value + 1.0]} for part, value in zip(PARTS, (42.0, 57.0, 49.0), strict=True)}


def test_with_priors_the_network_alone_is_named_first_everywhere() -> None:
    both = ABLATION["network_and_priors"]
    results = replace(FACTS.results, scores=both, controls={}, ablation=ABLATION, initial_weights="word vectors")
    card = read(replace(FACTS, auto_class="AutoModelForQuestionAnswering", results=results))
    rows = [line for line in card.text.splitlines() if line.startswith("| nsmc (test) | ")]
    starts = ["word vectors, network alone", "word vectors, network and priors", "no network, priors alone"]
    assert [row.split(" | ")[1] for row in rows] == starts
    assert [row.split(" | ")[3] for row in rows] == ["42.50", "57.50", "49.50"]
    assert "what the word vectors added is not known" in card.text
    named = [(result.metric_name, result.metric_value) for result in card.data.eval_results or []]
    assert named == [("f1 (network alone)", 42.5), ("f1 (network and priors)", 57.5), ("f1 (priors alone)", 49.5)]


def test_a_public_dev_set_stays_a_dev_set_though_it_is_read_as_test_set() -> None:
    results = replace(
        FACTS.results, dataset="KorQuAD 1.0", dataset_split="dev", dataset_id="KorQuAD/squad_kor_v1", examples=5774
    )
    card = read(replace(FACTS, results=results))
    assert "(test)" not in card.text and "and KorQuAD 1.0 (dev) was read once per run" in card.text
    for result in card.data.eval_results or []:
        described = (result.dataset_name, result.dataset_type, result.dataset_split)
        assert described == ("KorQuAD 1.0 (dev)", "KorQuAD/squad_kor_v1", "dev")
    error = 100 * math.sqrt(0.8724 * (1 - 0.8724) / 5774)
    assert f"With 5,774 examples the sampling error (one standard error) of accuracy is {error:.2f}." in card.text


def test_known_data_sets_are_credited_and_named_to_the_hub() -> None:
    files = ("kowiki/kowiki-12m.jsonl", "qa/KorQuAD_v1.0_dev.json", "mine/reviews.txt")
    rows = known_datasets([file_row(path, "CC BY-SA 3.0", "pretrain") for path in files])
    card = read(replace(FACTS, sources=rows))
    # articles that were prepared elsewhere are not the Hub's data set
    assert card.data.to_dict()["datasets"] == ["KorQuAD/squad_kor_v1"]
    assert (
        "- Korean Wikipedia: the authors of Korean Wikipedia, https://ko.wikipedia.org; kowiki-12m.jsonl: " in card.text
    )
    assert "dump of January 2023" in card.text
    assert "its passages are from Korean Wikipedia, by its authors, CC BY-SA" in card.text
    assert "| mine/reviews.txt |  | " in card.text


def test_weaknesses_versions_choices_and_licences_are_said() -> None:
    row = {"kind": "spaces-removed", "rate": 1.0, "scores": {"accuracy": 80.5}}
    noise = {"of": "dev", "examples": 1000, "in": ["text"], "clean": {"accuracy": 88.0}, "conditions": [row]}
    facts = replace(
        FACTS, noise=noise, author="A. Person & {x}", year="2026", selection="on dev.",
        versions={"kobert-pipeline": "0.1.0", "commit": "abc1234"},
    )  # fmt: skip
    text = read(facts).text
    assert "| none |  | 88.00 |\n| spaces-removed | 1 | 80.50 |" in text
    assert "(kobert-pipeline 0.1.0, commit abc1234)" in text and "How options were chosen: on dev." in text
    assert "by A. Person & {x} under [cc-by-sa-4.0](https://creativecommons.org/licenses/by-sa/4.0/)" in text
    assert "under Apache-2.0 (`LICENSE` beside them)" in text
    assert "  author = {A. Person \\& x},\n  year = {2026}," in text
    assert "LICENSE" not in read(replace(FACTS, analyzer="")).text, "a tokenizer of other people"


@pytest.mark.parametrize(
    ("licence", "address"),
    [
        ("CC BY-ND 2.0 KR", "https://creativecommons.org/licenses/by-nd/2.0/kr/"),
        ("CC BY-NC-SA 4.0", "https://creativecommons.org/licenses/by-nc-sa/4.0/"),
        ("Apache-2.0", "https://www.apache.org/licenses/LICENSE-2.0"),
        ("CC BY-SA", None),
        ("by letter", None),
    ],
)
def test_licences_have_addresses(licence: str, address: str | None) -> None:
    assert link(licence) == address


@pytest.mark.parametrize(
    ("test", "named"),
    [
        ("qa/KorQuAD_v1.0_dev.json", ("KorQuAD 1.0", "dev", "KorQuAD/squad_kor_v1")),
        ("nsmc/ratings_test.txt", ("Naver sentiment movie corpus", "test", "e9t/nsmc")),
        ("mine/my_dev.txt", ("my_dev.txt", "test", "")),
    ],
)
def test_results_name_the_part_that_a_known_file_states(test: str, named: tuple[str, str, str]) -> None:
    prepared = FeaturesOptions.model_validate({"task": "nsmc", "train": ["train.txt"], "test": test})
    manifests = {"features/nsmc": {"counts": {"test_examples": 9}}}
    results = describe_results(Results("nsmc", "nsmc", "test", SCORES, {}), prepared, manifests)
    assert (results.dataset, results.dataset_split, results.dataset_id or "") == named
    assert results.examples == 9


@pytest.mark.parametrize(
    ("vectors", "steps", "start"), [("sgns", 1, "word vectors"), ("sgns", 2, "pretrained"), (None, 1, "pretrained")]
)
def test_only_a_single_step_leaves_the_word_vectors_as_they_were(vectors: str | None, steps: int, start: str) -> None:
    prepared = FeaturesOptions.model_validate({"task": "nsmc", "train": ["train.txt"]})
    pretrain = {"options": {"word_vectors": vectors}, "counts": {"steps": steps}}
    manifests = {"features/nsmc": {"counts": {}}, "pretrain": pretrain}
    results = describe_results(Results("nsmc", "nsmc", "dev", SCORES, {}), prepared, manifests)
    assert results.initial_weights == start


def test_the_card_has_the_commit_that_a_checkpoint_was_fetched_at() -> None:
    counts = {"vocab_size": 32000, "parameters": 110_000_000}
    config = {"model_type": "bert"}
    numbers = card_counts({"checkpoint": {"counts": counts | {"commit": "abc123"}}}, config)
    assert (numbers["vocabulary"], numbers["commit of the checkpoint"]) == ("32,000", "abc123")
    assert "commit of the checkpoint" not in card_counts({"checkpoint": {"counts": counts}}, config)


@pytest.mark.parametrize(
    ("options", "stored", "said"),
    [
        ({}, False, "Priors alone choose among constant scores"),
        ({"null_threshold": 0.5}, False, "and by priors alone, every question gets an answer"),
        ({}, True, "These scores are of the weights as stored."),
    ],
)
def test_what_the_scores_without_priors_are_of(options: dict[str, float], stored: bool, said: str) -> None:
    results = replace(FACTS.results, ablation=ABLATION, ablation_as_stored=stored)
    (text,) = rules_text(replace(FACTS, results=results, inference_options={"answer_priors": {"type": 2.0}} | options))
    assert said in text
    assert ("every question" in text, "as stored" in text) == ("null_threshold" in options, stored)


@pytest.mark.parametrize(
    ("thresholds", "said"), [(0.25, "(`thresholds` of the config): 0.25 for all."), ({"기쁨": 0.5}, "기쁨 0.500.")]
)
def test_thresholds_are_one_number_or_one_for_each_label(thresholds: Any, said: str) -> None:
    (text,) = thresholds_text(replace(FACTS, inference_options={"thresholds": thresholds}))
    assert text.endswith(said)


@pytest.mark.parametrize("different", [0, 3])
def test_the_card_of_ngrams_says_how_many_predictions_its_tokens_change(different: int) -> None:
    cost = RoundingCost(200, "accuracy", (80.0, 79.5), different)
    card = ngrams.card(FACTS, Ngrams(), cost)
    assert ("On the 200 examples of dev 3 predictions differ from those of the training" in card) == bool(different)
    assert "It needs kobert-pipeline, but no torch." in card


def test_ngrams_without_a_plain_tokenizer_are_published_with_the_analyzers(tiny: Any, tmp_path: Path) -> None:
    tokenizer, model = tmp_path / "tokenizer", tmp_path / "model"
    shutil.copytree(tiny.run_dir / "tokenizer", tokenizer, ignore=shutil.ignore_patterns("plain"))
    write_json(model / CONFIG, {"max_position_embeddings": 64, "task_specific_params": {"nsmc": {"max_length": 48}}})
    (model / NGRAMS).write_bytes(b"weights")
    ngrams.export(model, tokenizer, tmp_path / "out")
    loaded = load_tokenizer(tmp_path / "out")
    assert loaded.tokenize("정말 재밌다") == load_tokenizer(tiny.run_dir / "tokenizer").tokenize("정말 재밌다")
    assert loaded.model_max_length == 48
    assert (tmp_path / "out" / NGRAMS).read_bytes() == b"weights"
