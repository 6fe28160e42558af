"""The base of tasks that answer a question by a span of a context. Examples have `id, group, question, context,
answers`, where answers are `[text, start]` in characters of the raw context, from 0. Tokens are mapped to text only by
their offsets, since joined tokens would not give the raw text."""

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import Field, PrivateAttr, model_validator

from kobert_pipeline.corpus.decontaminate import comparable
from kobert_pipeline.errors import UserError
from kobert_pipeline.features.answer_calibration import TEMPERATURES, AnswerCalibration, log_odds
from kobert_pipeline.features.answer_spans import (
    EMPTY,
    ScoredWindow,
    answer_tokens,
    context_offsets,
    text_parts,
    word_boundaries,
)
from kobert_pipeline.features.format import Features, flatten, row_starts
from kobert_pipeline.features.metrics import korquad_exact_match, korquad_scores
from kobert_pipeline.features.task import Example, Task, exactly
from kobert_pipeline.morphemes.analyzer_loader import analyzer
from kobert_pipeline.morphemes.normalization import replace_surrogates
from kobert_pipeline.questions import MADE
from kobert_pipeline.questions.answer_priors import NO_PRIORS, AnswerPriors
from kobert_pipeline.questions.exact_match import TYPES, match_types
from kobert_pipeline.questions.pos_feature import POS_TYPES, classes_of, is_untagged, with_parts_of_speech
from kobert_pipeline.tokenizer.loading import splits_into_morphemes, token_types

Spans = dict[int, tuple[float, int, int]]
"""By example number, the (score, first character, end character) of a span."""
FEWEST_QUESTIONS, MOST_QUESTIONS = 50, 300
"""Questions of dev that calibrate answers: with fewer there is no calibration, and of more it is an even sample, since
three numbers are fitted and each question has thousands of candidate spans."""


class SpanTask(Task):
    """Extractive question answering. Long contexts are split into overlapping windows."""

    auto_class: ClassVar[str] = "AutoModelForQuestionAnswering"
    metric: ClassVar[str] = "f1"
    clean_training: ClassVar[bool] = True
    endpoint: ClassVar[str | None] = "/v1/answer"
    inference_options: ClassVar[tuple[str, ...]] = (
        "stride", "max_answer_tokens", "max_question_tokens", "question_token", "exact_match_feature", "pos_feature",
        "whole_words", "answer_priors", "answer_calibration",
    )  # fmt: skip

    # these three as in BERT's run_squad
    stride: int = Field(128, ge=0)
    """Tokens that two neighbouring windows of a context share, a quarter of max_length at most."""
    max_answer_tokens: int = Field(30, gt=0)
    """Tokens of the longest answer that can be predicted."""
    max_question_tokens: int = Field(64, ge=2)
    """Longer questions are truncated to this number of tokens, including `question_token`, to leave room."""
    question_token: bool = False
    """Whether a [MASK] is appended to every question, as in Splinter (Ram et al., ACL 2021)."""
    # in the fingerprint only where they have an effect, so that runs from before they existed stay valid
    exact_match_feature: bool = Field(False, exclude_if=lambda value: not value)
    """Whether the token types of the context say which of its tokens the question contains, and how many of them are
    near (after the exact match of Chen et al., ACL 2017), so that a model with little pretraining need not learn to
    compare words. For architectures with token types: bert, roberta, electra, albert, roformer."""
    pos_feature: bool = Field(False, exclude_if=lambda value: not value)
    """Whether the token types also say which part of speech each token of the context is, by Kiwi's tags: a name, a
    noun, a number, a particle, ... (as Chen et al. do, too). Needs `exact_match_feature`. Every tenth training example
    has none, so that a model can be used without Kiwi (pos_feature: false), less well."""
    whole_words: bool = Field(False, exclude_if=lambda value: not value)
    """Whether predicted answers begin and end at morpheme boundaries, cross no line break, and have both of a pair of
    brackets or of curly quotation marks or none. No effect with a tokenizer that splits texts into eojeols,
    particles included: `plain/`, the style `none`, and other packages' checkpoints."""
    answer_priors: AnswerPriors = Field(NO_PRIORS, exclude_if=lambda value: value == NO_PRIORS)
    """What rules add to the scores of predicted answers, by what Kiwi finds; 0: nothing."""
    answer_calibration: AnswerCalibration | None = Field(None, exclude_if=lambda value: value is None)
    """What gives an answer its `probability`; it changes no answer. null: fitted on dev, where about 80 % of the
    answers with probability 0.8 are then exactly right; with fewer than 50 questions of people in dev answers have no
    probability."""

    _in_training: bool = PrivateAttr(False)

    @model_validator(mode="after")
    def _check_pos_feature(self) -> Self:
        if self.pos_feature and not self.exact_match_feature:
            raise ValueError("pos_feature needs exact_match_feature: true, whose token types it extends")
        return self

    @property
    def uses_kiwi(self) -> bool:
        """Whether there are priors, or parts of speech."""
        return self.pos_feature or self.answer_priors != NO_PRIORS

    @property
    def type_count(self) -> int:
        """How many token types the model must have; 0 where those of any model do."""
        return (POS_TYPES if self.pos_feature else TYPES) if self.exact_match_feature else 0

    def featurize(self, examples: list[Example], tokenizer: Any, max_length: int) -> dict[str, np.ndarray]:
        """Windows over (question, context). `offsets` (tokens, 2) are characters of the context, -1 for other tokens;
        `example` (n,) is the example of each window; with `whole_words`, `word_boundaries` (tokens, 2) is 1 where a
        morpheme begins and where one ends; with priors there are the arrays of `AnswerPriors`. The answer to a
        window that does not contain it is [CLS], 0."""
        encoded = tokenizer(
            [self.question_text(example["question"], tokenizer, max_length) for example in examples],
            [replace_surrogates(example["context"]) for example in examples],
            truncation="only_second",
            max_length=max_length,
            # about half of a window is for the context, so windows always advance
            stride=min(self.stride, max_length // 4),
            return_overflowing_tokens=True,
            return_token_type_ids=True,
            return_offsets_mapping=True,
        )
        example_of = encoded["overflow_to_sample_mapping"]
        offsets = [
            context_offsets(examples[example]["context"], row, encoded.sequence_ids(i))
            for i, (row, example) in enumerate(zip(encoded["offset_mapping"], example_of, strict=True))
        ]
        spans = [answer_tokens(row, examples[i]["answers"]) for row, i in zip(offsets, example_of, strict=True)]
        arrays = {
            "windows": row_starts(encoded["input_ids"]),
            "input_ids": flatten(encoded["input_ids"], np.int32),
            "token_type_ids": flatten(self._token_types(tokenizer, encoded, offsets, examples), np.uint8),
            "offsets": np.array([span for row in offsets for span in row], np.int32),
            "example": np.array(example_of, np.int64),
            "start_positions": np.array([start for start, _ in spans], np.int64),
            "end_positions": np.array([end for _, end in spans], np.int64),
        }
        if self.whole_words and splits_into_morphemes(tokenizer):
            arrays["word_boundaries"] = word_boundaries(offsets, encoded, example_of)
        texts = [(example["question"], example["context"]) for example in examples]
        return arrays | self.answer_priors.arrays(texts, offsets, example_of)

    def _token_types(self, tokenizer: Any, encoded: Any, offsets: Any, examples: list[Example]) -> list[Any]:
        """The token types of each window, by the `offsets` of its tokens and the context of its example."""
        if not self.exact_match_feature:
            return list(token_types(tokenizer, encoded))
        sides = [encoded.sequence_ids(window) for window in range(len(encoded["input_ids"]))]
        types = [match_types(*window).tolist() for window in zip(encoded["input_ids"], sides, strict=True)]
        if not self.pos_feature:
            return types
        windows = zip(types, offsets, map(examples.__getitem__, encoded["overflow_to_sample_mapping"]), strict=True)
        return [
            row if self._in_training and is_untagged(example["id"])
            else with_parts_of_speech(row, spans, classes_of(example["context"]))
            for row, spans, example in windows
        ]  # fmt: skip

    def question_text(self, question: str, tokenizer: Any, max_length: int) -> str:
        """A question as the model reads it: shortened, and with the `question_token`."""
        # [CLS] question [SEP] context [SEP]: 3 special tokens, and at least half of the rest is for the context
        longest = min(self.max_question_tokens, (max_length - 3) // 2) - self.question_token
        mark = f" {tokenizer.mask_token}" if self.question_token else ""
        return self._shorten_question(replace_surrogates(question), longest, tokenizer) + mark

    def _shorten_question(self, question: str, longest: int, tokenizer: Any) -> str:
        if 4 * len(question) <= longest:  # a character has at most four tokens, of bytes
            return question
        encoded = tokenizer(
            question, truncation=True, max_length=longest, add_special_tokens=False, return_offsets_mapping=True
        )
        offsets = encoded["offset_mapping"]
        # the end of the last token that fits, in characters: the question is encoded again, with its context
        return question[: offsets[-1][1]] if offsets else question  # of white space alone nothing is left

    def refuse_missing_libraries(self) -> None:
        """Raise UserError where priors or tags need Kiwi, which is not installed."""
        uses = {"answer_priors={}": self.answer_priors != NO_PRIORS, "pos_feature=false": self.pos_feature}
        settings = [setting for setting, is_used in uses.items() if is_used]
        if not settings:
            return
        try:
            analyzer("kiwi")
        except ImportError as error:
            needed = " and ".join(setting.partition("=")[0] for setting in settings)
            without = " ".join(f"--set {setting}" for setting in settings)
            raise UserError(
                f"task {self.name}: {needed} need Kiwi: {error}; to answer without it, leave them out "
                f"(kobert evaluate {without}, or task_specific_params in config.json of a folder made with plain/)"
            ) from None

    def in_training(self) -> Self:
        """The task without what predictions alone need, for which the analyzer would read each context once more."""
        task = self.model_copy(update={"whole_words": False, "answer_priors": NO_PRIORS})
        task._in_training = True
        return task

    def ablate_priors(self) -> tuple[Self, Self] | None:
        """The task without priors, and itself; None where it has no priors."""
        return None if self.answer_priors == NO_PRIORS else (self.model_copy(update={"answer_priors": NO_PRIORS}), self)

    def targets(self, features: Features) -> dict[str, np.ndarray]:
        """`start_positions` and `end_positions`, (n,)."""
        return {name: features.arrays[name] for name in ("start_positions", "end_positions")}

    def predict(self, logits: dict[str, list[np.ndarray]], features: Features) -> list[str]:
        """Per example the text of the predicted answer, "" for none."""
        spans = self.answer_spans(logits, features)
        return [
            example["context"][spans[i][1] : spans[i][2]] if i in spans else ""
            for i, example in enumerate(features.examples)
        ]

    def answer_spans(self, logits: dict[str, list[np.ndarray]], features: Features) -> Spans:
        """The spans of the predicted answers; examples without one are missing."""
        return self.answered(self.best_spans(logits, features), logits, features)

    def answered(self, best: Spans, logits: dict[str, list[np.ndarray]], features: Features) -> Spans:
        """The `best` spans that are answers; here every question has an answer."""
        return best

    def best_spans(self, logits: dict[str, list[np.ndarray]], features: Features) -> Spans:
        """By example number, the best span of all its windows; examples without a span are missing."""
        best: dict[int, tuple[float, int, int]] = {}
        for i, example in enumerate(features.arrays["example"].tolist()):
            span = self._window(i, logits, features).best()
            if span and (example not in best or span[0] > best[example][0]):
                best[example] = span
        return best

    def _window(self, index: int, logits: dict[str, list[np.ndarray]], features: Features) -> ScoredWindow:
        """A window as it is scored, with what priors and boundaries of words change."""
        window = slice(*features.arrays["windows"][index : index + 2])
        spans = features.arrays["offsets"][window]
        # logits of a padded batch are longer than the window
        starts, ends = (logits[name][index][: len(spans)] for name in ("start_logits", "end_logits"))
        parts = None
        # a tokenizer that splits into eojeols gives no boundaries: answers end before the particle, inside a word
        if self.whole_words and "word_boundaries" in features.arrays:
            begins, finishes = features.arrays["word_boundaries"][window].T
            starts, ends = np.where(begins, starts, -np.inf), np.where(finishes, ends, -np.inf)
            context = features.examples[features.arrays["example"][index]]["context"]
            parts = text_parts(context)
        starts = starts + self.answer_priors.of_starts(features.arrays, window)
        candidates = self.answer_priors.of_candidates(features.arrays, window)
        return ScoredWindow(starts, ends, spans, self.max_answer_tokens, candidates, parts)

    def null_candidates(self, logits: dict[str, list[np.ndarray]], features: Features) -> dict[int, float]:
        """By example number, the score with which no answer competes against spans; {} where all have an answer."""
        return {}

    def candidates(
        self, logits: dict[str, list[np.ndarray]], features: Features, examples: list[int]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For each of the `examples` the scores (n,) of all that could be answered, and their characters (n, 2) in the
        context; last, as (0, 0), no answer where the task has it. A span that is in two windows has the better of its
        scores. The best is the prediction."""
        nulls = self.null_candidates(logits, features)
        windows_of: dict[int, list[int]] = {}
        for i, example in enumerate(features.arrays["example"].tolist()):
            windows_of.setdefault(example, []).append(i)
        for example in examples:
            of_windows = [self._window(i, logits, features).spans() for i in windows_of.get(example, ())]
            scores, spans = (np.concatenate([*parts]) for parts in zip(EMPTY, *of_windows, strict=True))
            if len(of_windows) > 1:
                # best first, since of equal spans `np.unique` gives the first
                order = np.argsort(-scores, kind="stable")
                _, first = np.unique(spans[order], axis=0, return_index=True)
                scores, spans = scores[order][first], spans[order][first]
            if len(scores) and example in nulls:
                scores, spans = np.append(scores, nulls[example]), np.concatenate([spans, [(0, 0)]])
            yield scores, spans

    def calibrate(self, logits: dict[str, list[np.ndarray]], features: Features) -> Self:
        """The task with the calibration that is likeliest by which answers to the questions of dev are exactly right,
        unless it was given or people asked too few of them: of made questions nearly all have a right answer."""
        by_people = [
            index for index, example in enumerate(features.examples) if not example.get("id", "").startswith(MADE)
        ]
        count = len(by_people)
        if self.answer_calibration is not None or count < FEWEST_QUESTIONS:
            return self
        sample = [by_people[number] for number in np.linspace(0, count - 1, min(count, MOST_QUESTIONS)).astype(int)]
        odds: list[np.ndarray] = []
        right: list[bool] = []
        for index, (scores, spans) in zip(sample, self.candidates(logits, features, sample), strict=True):
            if not len(scores):
                continue
            example, (start, end) = features.examples[index], spans[scores.argmax()]
            answers = [text for text, _ in example["answers"]] or [""]
            is_right = any(korquad_exact_match(example["context"][start:end], answer) for answer in answers)
            odds.append(log_odds(scores, TEMPERATURES))
            right.append(is_right)
        calibration = AnswerCalibration.fit(np.array(odds), np.array(right)) if right else None
        return self.model_copy(update={"answer_calibration": calibration})

    @property
    def inputs(self) -> tuple[str, ...]:
        """The context and the question."""
        return "context", "question"

    def right_answer(self, example: Example) -> str:
        """The first answer."""
        return example["answers"][0][0] if example["answers"] else ""

    @property
    def noisy_inputs(self) -> tuple[str, ...]:
        """The question and the context, where an answer becomes what noise makes of it."""
        return "question", "context"

    def unlabelled(self, texts: list[str]) -> Example:
        """The context and the question without an answer."""
        return {**exactly(texts, self.inputs), "answers": []}

    def results(
        self, predictions: list[Any], logits: dict[str, list[np.ndarray]], features: Features
    ) -> list[dict[str, Any]]:
        """The answers with their characters in the context. `score` is the sum of the start and end logits of the best
        span, with its priors; `probability` is how likely the answer is right, "" included; None for an empty context,
        and without an `answer_calibration`."""
        best = self.best_spans(logits, features)
        answered = self.answered(best, logits, features)
        probabilities: dict[int, float] = {}
        if self.answer_calibration is not None:
            of_best = self.candidates(logits, features, list(best))
            probabilities = {
                index: round(self.answer_calibration.probability(scores), 4)
                for index, (scores, _) in zip(best, of_best, strict=True)
            }
        rows = []
        for index, (example, answer) in enumerate(zip(features.examples, predictions, strict=True)):
            _, start, end = answered.get(index, (0.0, 0, 0))
            score = round(best[index][0], 4) if index in best else None
            row = {"question": example["question"], "answer": answer, "start": start, "end": end, "score": score}
            rows.append(row | {"probability": probabilities.get(index)})
        return rows

    def score(self, predictions: list[Any], examples: list[Example]) -> dict[str, float]:
        """KorQuAD's exact match and F1."""
        return korquad_scores(predictions, [[text for text, _ in example["answers"]] for example in examples])

    def content(self, example: Example) -> str:
        """The context."""
        return str(example["context"])

    def known_by(self, example: Example) -> str:
        """The question with its context: other questions on the same contexts are a fair dev set."""
        return comparable(example["question"] + example["context"])
