"""Loading and predicting with a published checkpoint, compared with the pipelines of `transformers` and with an argmax
by hand."""

import json
import shutil
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kobert_pipeline as kobert
from kobert_pipeline import load
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.rows import PREDICT_BATCH_SIZE
from kobert_pipeline.inference.fill_mask import likeliest
from kobert_pipeline.inference.loading import load_model, load_tokenizer, refuse_incomplete
from kobert_pipeline.inference.task_of_checkpoint import choose_task
from kobert_pipeline.tokenizer.tokenizers_only import TokenizersOnly

CONTEXT = "한글은 세종대왕이 1443년에 만들었다. 처음 이름은 훈민정음이었다."
QUESTION = "한글은 누가 만들었는가?"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nsmc", "BertForSequenceClassification"),
        ("korquad", "BertForQuestionAnswering"),
        ("mlm", "BertForPreTraining"),
    ],
)
def test_model_loads_with_the_head_it_was_published_with_in_evaluation_mode(name: Any, kind: Any, tiny) -> None:
    model = load_model(tiny.run_dir / "publish" / name)
    assert type(model).__name__ == kind, (name, kind)
    assert not model.training, (name, kind)


def test_folder_that_lacks_a_file_is_no_checkpoint_and_the_file_is_named(tiny, tmp_path) -> None:
    for number, missing in enumerate(("config.json", "model.safetensors", "tokenizer_config.json", "morphemes.json")):
        place = tmp_path / str(number)
        place.mkdir()
        folder = Path(shutil.copytree(tiny.run_dir / "publish" / "nsmc", place / "broken"))
        (folder / missing).unlink()
        with pytest.raises(UserError, match=f"not a published checkpoint: .*{missing}.* missing"):
            refuse_incomplete(folder)
        with pytest.raises(UserError, match="not a published checkpoint"):
            load_model(folder)


def test_tokenizer_loads_from_a_run_and_from_a_checkpoint_alike(tiny) -> None:
    ours, published = load_tokenizer(tiny.run_dir / "tokenizer"), load_tokenizer(tiny.run_dir / "publish" / "mlm")
    assert ours.get_vocab() == published.get_vocab()
    assert ours(CONTEXT)["input_ids"] == published(CONTEXT)["input_ids"]
    assert published.model_max_length == 256


def test_labels_and_scores_are_those_of_transformers_pipeline(tiny) -> None:
    from transformers import pipeline

    folder = tiny.run_dir / "publish" / "nsmc"
    texts = ["정말 재밌다", "뷁", "지루하고 길었다 " * 200, "연기가 좋았다"]
    classify = pipeline("text-classification", model=load_model(folder), tokenizer=load_tokenizer(folder))
    for found, expected in zip(
        kobert.load(folder).predict(texts), classify(texts, top_k=None, truncation=True), strict=True
    ):
        for score in expected:
            assert found["scores"][score["label"]] == pytest.approx(score["score"], abs=2e-4)
        assert found["label"] == expected[0]["label"]


def test_more_texts_than_a_batch_come_back_in_order_as_if_alone(tiny) -> None:
    folder = tiny.run_dir / "publish" / "nsmc"
    texts = [f"{i}번째 평: {'정말 ' * (i % 7)}재밌다" for i in range(PREDICT_BATCH_SIZE + 5)]
    found = kobert.load(folder).predict(texts)
    assert [result["text"] for result in found] == texts
    for number in (0, PREDICT_BATCH_SIZE - 1, PREDICT_BATCH_SIZE, PREDICT_BATCH_SIZE + 4):
        alone = kobert.load(folder).predict([texts[number]])[0]
        assert alone["scores"]["positive"] == pytest.approx(found[number]["scores"]["positive"], abs=2e-4)


def test_no_texts_no_results(tiny) -> None:
    assert kobert.load(tiny.run_dir / "publish" / "nsmc").predict([]) == []


def test_answer_is_the_best_span_by_hand(tiny) -> None:
    import torch

    folder = tiny.run_dir / "publish" / "korquad"
    model, tokenizer = load_model(folder), load_tokenizer(folder)
    encoded = tokenizer(QUESTION, CONTEXT, return_tensors="pt", return_offsets_mapping=True)
    offsets, sides = encoded.pop("offset_mapping")[0].tolist(), encoded.sequence_ids(0)
    with torch.no_grad():
        outputs = model(**encoded)
    starts, ends = outputs.start_logits[0].tolist(), outputs.end_logits[0].tolist()
    inside = [i for i, side in enumerate(sides) if side == 1]
    score, start, end = max(
        (starts[i] + ends[j], offsets[i][0], offsets[j][1]) for i in inside for j in inside if i <= j < i + 30
    )
    found = kobert.load(folder).predict([CONTEXT], QUESTION)[0]
    assert (found["start"], found["end"]) == (start, end)
    assert found["answer"] == CONTEXT[start:end]
    assert found["score"] == pytest.approx(score, abs=1e-3)


def test_answer_in_a_context_of_many_windows_may_be_anywhere_and_is_a_slice_of_the_raw_text(tiny) -> None:
    folder = tiny.run_dir / "publish" / "korquad"
    kinds = ["한\t가지", "여러  가지", "여러 가지"]
    context = "\n".join(f"{i}번 문단에는 {kinds[i % 3]} 이야기가 있다." for i in range(120))
    found = kobert.load(folder).predict([context], QUESTION)[0]
    assert len(load_tokenizer(folder)(context)["input_ids"]) > 3 * 256
    assert found["answer"] == context[found["start"] : found["end"]] != ""
    assert found["score"] >= kobert.load(folder).predict([context[:300]], QUESTION)[0]["score"] - 1e-3, (
        "the first window is one of those searched"
    )


def test_answer_from_decomposed_text_counts_the_characters_as_given(tiny) -> None:
    folder = tiny.run_dir / "publish" / "korquad"
    composed, decomposed = CONTEXT, unicodedata.normalize("NFD", CONTEXT)
    found, expected = (
        kobert.load(folder).predict([decomposed], QUESTION)[0],
        kobert.load(folder).predict([composed], QUESTION)[0],
    )
    assert found["answer"] == decomposed[found["start"] : found["end"]]
    assert unicodedata.normalize("NFC", found["answer"]) == expected["answer"]


@pytest.mark.parametrize("context", ["", " \n "])
def test_empty_context_gives_an_empty_answer_in_valid_json(context: Any, tiny) -> None:
    found = kobert.load(tiny.run_dir / "publish" / "korquad").predict([context], QUESTION)[0]
    assert (found["answer"], found["start"], found["end"]) == ("", 0, 0), context
    json.loads(json.dumps(found), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_question_longer_than_the_positions_is_truncated_and_answered(tiny) -> None:
    found = kobert.load(tiny.run_dir / "publish" / "korquad").predict([CONTEXT], "왜 그리고 언제 " * 200)[0]
    assert found["answer"] == CONTEXT[found["start"] : found["end"]] != ""


def test_masks_are_filled_as_by_transformers_pipeline(tiny) -> None:
    from transformers import BertForMaskedLM, pipeline

    folder = tiny.run_dir / "publish" / "mlm"
    text = "대한민국의 [MASK]는 서울이다."
    expected = pipeline("fill-mask", model=BertForMaskedLM.from_pretrained(folder), tokenizer=load_tokenizer(folder))(
        text, top_k=4
    )
    tokenizer = load_tokenizer(folder)
    found = kobert.load(folder).predict([text], top_k=4)[0]["masks"]
    assert len(found) == 1
    assert sorted(found[0].values(), reverse=True) == list(found[0].values())
    wanted = {tokenizer.convert_ids_to_tokens(guess["token"]): guess["score"] for guess in expected}
    assert found[0] == pytest.approx(wanted, abs=1e-3)


def test_ids_without_a_token_fill_no_mask(tiny) -> None:
    """Models of others have rows for more ids than there are tokens."""
    folder = tiny.run_dir / "publish" / "mlm"
    for tokenizer in (load_tokenizer(folder), TokenizersOnly.from_folder(folder / "plain")):
        logits = np.zeros(len(tokenizer) + 3, np.float32)
        logits[[6, 7, -1]] = [6, 7, 9]
        assert list(likeliest(tokenizer, logits, 2)) == tokenizer.convert_ids_to_tokens([7, 6])


def test_every_mask_gets_its_own_guesses(tiny) -> None:
    masks = kobert.load(tiny.run_dir / "publish" / "mlm").predict(["[MASK] [MASK] [MASK]"], top_k=2)[0]["masks"]
    assert [len(guesses) for guesses in masks] == [2, 2, 2]


def test_mask_after_the_last_position_is_refused(tiny) -> None:
    """Truncation would drop it silently."""
    with pytest.raises(UserError):
        kobert.load(tiny.run_dir / "publish" / "mlm").predict(["아주 긴 글이다. " * 200 + "[MASK]"])


def test_several_questions_are_answered_text_by_text(tiny, kobert, tmp_path) -> None:
    model = load(tiny.run_dir / "publish" / "korquad")
    questions, texts = [QUESTION, "언제 만들었는가?"], [CONTEXT, "세종은 1418년에 왕이 되었다."]
    expected = [model.predict(text, question) for text in texts for question in questions]
    assert len({(row["question"], row["end"]) for row in expected}) > 2
    assert model.predict(texts, questions) == expected
    assert model.predict(CONTEXT, questions) == expected[:2]
    assert model.predict(CONTEXT, [QUESTION]) == expected[:1]
    words = ("predict", model.folder, "--json", *(word for question in questions for word in ("--question", question)))
    printed = kobert(*words, *texts)
    assert [json.loads(line) for line in printed.out.splitlines()] == expected
    (tmp_path / "texts.csv").write_text("context\n" + "\n".join(texts) + "\n", encoding="utf-8")
    rows = [json.loads(line) for line in kobert(*words, "--in", tmp_path / "texts.csv").out.splitlines()]
    assert rows == [{"row": 1 + index // 2, **row} for index, row in enumerate(expected)]
    with pytest.raises(UserError, match="question is an empty list"):
        model.predict(CONTEXT, [])
    with pytest.raises(UserError, match=r"question\[1\] is 5, which is not a text"):
        model.predict(CONTEXT, [QUESTION, 5])


def test_a_model_that_was_not_calibrated_says_that_its_answers_have_no_probability(tiny, kobert) -> None:
    printed = kobert("predict", tiny.run_dir / "publish" / "korquad", CONTEXT, "--question", QUESTION)
    assert printed.out.endswith("probability: none\n")
    assert "answers have no probability, because the model stores no answer_calibration" in printed.err


def test_predict_refuses_by_kind_of_head(tiny) -> None:
    with pytest.raises(UserError, match="--question"):
        kobert.load(tiny.run_dir / "publish" / "korquad").predict([CONTEXT])
    with pytest.raises(UserError, match="does not answer questions"):
        kobert.load(tiny.run_dir / "publish" / "nsmc").predict([CONTEXT], QUESTION)
    with pytest.raises(UserError, match=r"\[MASK\]"):
        kobert.load(tiny.run_dir / "publish" / "mlm").predict(["가린 것이 없다"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "nsmc", "txt": "x"}, "task nsmc: unknown key 'txt'"),
        ({"name": "korquad", "stride": "far"}, "task korquad: stride"),
    ],
)
def test_a_wrong_option_of_a_task_is_named(options: Any, said: Any) -> None:
    with pytest.raises(UserError, match=said):
        choose_task(options)
