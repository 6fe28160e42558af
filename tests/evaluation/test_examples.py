"""Noise in labelled examples, whose answers can still be found, and the kinds of informal text."""

from pathlib import Path
from typing import Any

import pytest

from kobert_pipeline.errors import UserError
from kobert_pipeline.evaluation.error_analysis import reaches
from kobert_pipeline.evaluation.noise import KINDS, Noise, add_noise, noisy_fields
from kobert_pipeline.evaluation.subsets import NONE, subsets, subsets_of
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.inference.loading import load_tokenizer


@pytest.fixture(scope="module")
def examples(corpora: Path) -> list[dict[str, Any]]:
    return Task.choose("korquad").read(corpora / "qa_dev.json")


def test_answers_are_where_noisy_examples_say_and_are_what_the_noise_made_of_them(examples: list) -> None:
    for kind in KINDS:
        rate = KINDS[kind].rates[-1]
        made = add_noise(examples, ("question", "context"), Noise(kind, rate, 1))
        changed = 0
        for one, other in zip(made, examples, strict=True):
            assert {key: one[key] for key in ("id", "group")} == {key: other[key] for key in ("id", "group")}, kind
            for (text, start), (was, _) in zip(one["answers"], other["answers"], strict=True):
                assert one["context"][start : start + len(text)] == text, kind
                assert text == text.strip() != "", kind
                changed += text != was
                if kind.startswith("spaces"):
                    assert text.replace(" ", "") == was.replace(" ", ""), kind
        assert [one["context"] != other["context"] for one, other in zip(made, examples, strict=True)].count(
            True
        ) == len(examples), kind
        assert changed, "some answer was changed, so the equality above is tested"


def test_windows_of_noisy_contexts_hold_the_noisy_answers(examples: list, tiny: Any) -> None:
    for kind in KINDS:
        tokenizer = load_tokenizer(tiny.run_dir / "tokenizer")
        made = add_noise(examples, ("question", "context"), Noise(kind, KINDS[kind].rates[0], 1))
        task = Task.choose("korquad")
        features = Features(task.featurize(made, tokenizer, 128), made)
        assert all(reach is not None and reach.in_window for reach in reaches(features))


def test_noise_is_added_to_the_named_fields(examples: list) -> None:
    task = Task.choose("korquad")
    noise = Noise("spaces-removed", 1.0, 1)
    made = add_noise(examples, noisy_fields(task, ["question"]), noise)
    for one, other in zip(made, examples, strict=True):
        assert " " not in one["question"]
        assert (one["context"], one["answers"]) == (other["context"], other["answers"])
    with pytest.raises(UserError, match="the task korquad has the texts question, context"):
        noisy_fields(task, ["text"])
    assert noisy_fields(Task.choose("nsmc"), []) == ("text",)
    assert noisy_fields(Task.choose("pair"), []) == ("text", "text_pair")


def test_both_texts_of_a_pair_take_noise_and_the_label_stays() -> None:
    pair = {"id": "1", "group": "", "text": "가 나", "text_pair": "다 라", "label": 1}
    assert add_noise([pair], ("text", "text_pair"), Noise("spaces-removed", 1.0, 1)) == [
        {**pair, "text": "가나", "text_pair": "다라"}
    ]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("최고의 영화 😀", ["emoji"]),
        ("재밌다 ^^", ["emoticon"]),
        ("이게 뭐야 ㅡㅡ", ["emoticon"]),
        ("슬프다 T_T", ["emoticon"]),
        ("웃기네ㅋㅋ", ["laughter"]),
        ("좋아요ㅎㅎㅎ", ["laughter"]),
        ("영화ㅠㅠ", ["tears"]),
        ("ㅇㅈ 명작", ["jamo-slang"]),
        ("연기 ㄷㄷㅋㅋ", ["laughter", "jamo-slang"]),
        ("우와아아아 대박", ["elongation"]),
        ("좋다~", ["elongation"]),
        ("와ㅏㅏ", ["elongation"]),
        ("OST가 좋다", ["latin"]),
        ("평범한 영화였다. 1998년!", [NONE]),
        ("ㅋ A급 영화", [NONE]),
        ("", [NONE]),
    ],
)
def test_kinds_of_text(text: Any, names: Any) -> None:
    assert subsets_of(text) == names


def test_every_example_is_in_a_subset_and_empty_subsets_are_left_out() -> None:
    examples = [{"text": "가ㅋㅋ"}, {"text": "나"}, {"text": "다", "text_pair": "라ㅠㅠ"}]
    assert dict(subsets(examples)) == {"laughter": [0], "tears": [2], NONE: [1]}
