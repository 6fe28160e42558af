"""Classification: one window per text."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
from kobert_pipeline.tokenizer.special_tokens import SEP_ID


def test_windows_equal_the_tokenizer_on_each_text_alone(corpora: Path, morpheme_tokenizer: MorphemeTokenizer) -> None:
    task = Task.choose("nsmc")
    examples = task.read(corpora / "reviews_test.txt")
    arrays = task.featurize(examples, morpheme_tokenizer, 128)
    for example, start, end in zip(examples, arrays["windows"], arrays["windows"][1:], strict=False):
        assert arrays["input_ids"][start:end].tolist() == morpheme_tokenizer(example["text"])["input_ids"]
    assert arrays["labels"].tolist() == [example["label"] for example in examples]
    assert set(arrays["token_type_ids"].tolist()) == {0}
    assert len(arrays["windows"]) == len(examples) + 1


def test_a_long_text_is_cut_at_max_length_and_still_ends_with_sep(morpheme_tokenizer: MorphemeTokenizer) -> None:
    examples = [{"text": "정말 재미있는 영화였다. " * 30, "label": 1}, {"text": "", "label": 0}]
    arrays = Task.choose("nsmc").featurize(examples, morpheme_tokenizer, 16)
    assert np.diff(arrays["windows"]).tolist() == [16, 2]
    assert arrays["input_ids"][15] == SEP_ID


def test_predictions_are_the_largest_logits_and_scored_in_percent() -> None:
    task, examples = Task.choose("nsmc"), [{"label": 1}, {"label": 0}, {"label": 0}]
    logits = {"logits": [np.array([0.1, 0.9]), np.array([3.0, -1.0]), np.array([-2.0, -1.0])]}
    predictions = task.predict(logits, Features({"windows": np.arange(4)}, examples))
    assert predictions == [1, 0, 1]
    assert task.score(predictions, examples)["accuracy"] == 100 * 2 / 3


def test_the_head_is_named_by_its_labels() -> None:
    config = Task.choose("nsmc").config()
    assert config["num_labels"] == len(config["id2label"]) == 2
    assert {label: i for i, label in config["id2label"].items()} == config["label2id"]


@pytest.mark.parametrize(
    ("task", "example"),
    [
        ("nsmc", {"text": "재미있다", "label": 1}),
        ("korquad", {"question": "누가?", "context": "세종이 만들었다.", "answers": [["세종", 0]]}),
        ({"name": "tagging", "labels": ["사람"]}, {"text": "세종이 만들었다.", "entities": [[0, 2, "사람"]]}),
    ],
)
def test_the_tokenizer_of_a_model_without_segments_makes_the_same_features(
    task: Any, example: Any, morpheme_tokenizer: MorphemeTokenizer, morpheme_tokenizer_folder: Path
) -> None:
    without = MorphemeTokenizer.from_pretrained(
        morpheme_tokenizer_folder, model_input_names=["input_ids", "attention_mask"]
    )
    made, expected = (Task.choose(task).featurize([example], one, 32) for one in (without, morpheme_tokenizer))
    assert {name: array.tolist() for name, array in made.items()} == {
        name: array.tolist() for name, array in expected.items()
    }, (task, example)


def test_what_is_cut_at_max_length_is_counted_also_of_pairs_and_choices(morpheme_tokenizer: MorphemeTokenizer) -> None:
    long, short = "정말 재미있는 영화였다. " * 30, "좋다."
    fits = next(text for n in range(1, 60) if len(morpheme_tokenizer(text := "좋다 " * n)["input_ids"]) == 16)
    cases = {
        "nsmc": ([{"text": text, "label": 0} for text in (long, short, fits, long)], 2),
        "pair": (
            [{"text": a, "text_pair": b, "label": 0} for a, b in ((long, short), (short, long), (short, short))],
            2,
        ),
        "choice": (
            [
                {"text": short, "choices": choices, "label": 0}
                for choices in ([long, long], [short, short], [short, long])
            ],
            2,
        ),
        "tagging": ([{"text": long, "entities": []}], 0),
    }
    for name, (examples, cut) in cases.items():
        task = Task.choose(name)
        features = Features(task.featurize(examples, morpheme_tokenizer, 16), examples)
        assert len(task.truncated(features, morpheme_tokenizer, 16)) == cut, name


def test_the_table_of_a_run_tells_of_many_texts_that_were_cut() -> None:
    from kobert_pipeline.cli.run_results import result_of

    few, many = (result_of({"train_examples": 100, "train_truncated": cut}) for cut in (12, 40))
    assert few.endswith("12% of them truncated to max_length")
    assert "40% of them truncated to max_length, so a larger max_length may be much better" in many
    assert "cut" not in result_of({"train_examples": 100, "train_truncated": 3})
