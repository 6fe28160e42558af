"""The same sentences in every form that data sets and annotation tools have for entities: as many examples, with the
same texts and entities. What is no such form is refused with a way out."""

import csv
import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kobert_pipeline.errors import UserError, UserErrors
from kobert_pipeline.features.entity_rows import KLUE_TAGS
from kobert_pipeline.features.format import Features
from kobert_pipeline.features.task import Task
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer


class Eojeol(NamedTuple):
    stem: str
    particle: str
    type: str | None


Sentence = list[Eojeol]
Entities = list[tuple[int, int, str]]


def text_of(sentence: Sentence) -> str:
    return " ".join(eojeol.stem + eojeol.particle for eojeol in sentence)


def entities_of(sentence: Sentence, whole: bool) -> Entities:
    """The stems that have a type, or their whole eojeols."""
    entities, begin = Entities(), 0
    for stem, particle, kind in sentence:
        if kind:
            entities.append((begin, begin + len(stem + particle if whole else stem), kind))
        begin += len(stem + particle) + 1
    return entities


def characters(sentence: Sentence) -> list[tuple[str, str]]:
    """The characters of a text, with their tags as in KLUE."""
    tags = ["O"] * len(text_of(sentence))
    for start, end, kind in entities_of(sentence, False):
        tags[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
    return list(zip(text_of(sentence), tags, strict=True))


def morphemes(sentence: Sentence) -> list[tuple[str, str]]:
    """Stems, particles and the blanks between eojeols, as KMOU has them."""
    tagged = [[("_", "O"), (stem, f"B-{kind}" if kind else "O"), (particle, "O")] for stem, particle, kind in sentence]
    return [pair for group in tagged for pair in group][1:]


def eojeols(sentence: Sentence, form: str, outside: str = "O") -> list[tuple[str, str]]:
    return [(stem + particle, form.format(kind) if kind else outside) for stem, particle, kind in sentence]


def lines(sentences: list[Sentence], line: Callable[[int, Any], str], units: Callable[[Sentence], Any]) -> str:
    """A line per unit, and a blank one between sentences."""
    blocks = (
        "".join(line(number, unit) + "\n" for number, unit in enumerate(units(sentence))) for sentence in sentences
    )
    return "\n".join(blocks)


def klue(sentences: list[Sentence]) -> str:
    return lines(sentences, lambda n, pair: "\t".join(pair), lambda s: [("## a-1", "글"), *characters(s)])


def kmou(sentences: list[Sentence], comments: bool = True) -> str:
    def units(sentence: Sentence) -> list[list[str]]:
        of_tokens = [[token, token, "_" if token == "_" else "NNG", tag] for token, tag in morphemes(sentence)]
        return [*([["## 7"], ["## " + text_of(sentence)], ["## <글:PS>"]] if comments else []), *of_tokens]

    return lines(sentences, lambda n, fields: "\t".join(fields), units)


def json_lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def offsets(sentence: Sentence) -> list[dict[str, Any]]:
    """Entities with the text that is there."""
    text = text_of(sentence)
    return [{"begin": a, "end": b, "form": text[a:b], "label": kind} for a, b, kind in entities_of(sentence, False)]


def label_studio(sentence: Sentence) -> list[dict[str, Any]]:
    """As a browser counts: in UTF-16 code units."""
    text = text_of(sentence)

    def units(place: int) -> int:
        return len(text[:place].encode("utf-16-le")) // 2

    return [
        {"start": units(a), "end": units(b), "text": text[a:b], "labels": [kind]}
        for a, b, kind in entities_of(sentence, False)
    ]


def label_studio_json(sentences: list[Sentence]) -> str:
    return json.dumps([
        {
            "id": n,
            "data": {"review": text_of(sentence)},
            "annotations": [
                {"was_cancelled": True, "result": []},
                {"result": [{"value": value, "type": "labels"} for value in label_studio(sentence)]
                 + [{"value": {"choices": ["좋다"]}, "type": "choices"}]},
            ],
            "predictions": [],
        }
        for n, sentence in enumerate(sentences)
    ])  # fmt: skip


def label_studio_minimal(sentences: list[Sentence]) -> str:
    rows = [{"id": n, "text": text_of(s), "annotation_id": n} for n, s in enumerate(sentences)]
    # tasks without a label have no such key
    return json.dumps([
        row | ({"label": label} if (label := label_studio(s)) else {}) for row, s in zip(rows, sentences, strict=True)
    ])  # fmt: skip


def label_studio_csv(sentences: list[Sentence]) -> str:
    labels = [json.dumps(label) if (label := label_studio(s)) else "" for s in sentences]
    rows = [[n, n, labels[n], text_of(s)] for n, s in enumerate(sentences)]
    return csv_text([["annotation_id", "id", "label", "text"], *rows])


def modu(sentences: list[Sentence]) -> str:
    blank = {"id": "d.0", "form": "", "NE": []}
    of_document = [{"id": f"d.{n}", "form": text_of(s), "NE": offsets(s) or None} for n, s in enumerate(sentences, 1)]
    return json.dumps({"id": "NIKL", "document": [{"id": "d", "sentence": [blank, *of_document]}]})


def rows_of(sentences: list[Sentence], row: Callable[[Sentence], dict[str, Any]]) -> str:
    return json_lines([row(sentence) for sentence in sentences])


def by_datasets(sentence: Sentence, numbers: bool) -> dict[str, Any]:
    tokens, tags = map(list, zip(*characters(sentence), strict=True))
    marked = " ".join(f"<{stem}:{kind}>{p}" if kind else stem + p for stem, p, kind in sentence)
    return {
        "sentence": marked,
        "tokens": tokens,
        "ner_tags": [KLUE_TAGS.index(tag) for tag in tags] if numbers else tags,
    }


def morphemes_and_text(sentence: Sentence) -> dict[str, Any]:
    pairs = [(token, tag) for token, tag in morphemes(sentence) if token != "_"]
    return {
        "text": text_of(sentence), "tokens": [t for t, _ in pairs],
        "ner_tags": [tag.replace("B-", "B_") for _, tag in pairs],
    }  # fmt: skip


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    file = io.StringIO(newline="")
    csv.writer(file).writerows(rows)
    return file.getvalue()


def begun(pairs: list[tuple[str, str]]) -> list[tuple[bool, tuple[str, str]]]:
    """Pairs, and whether each is the first."""
    return [(n == 0, pair) for n, pair in enumerate(pairs)]


def triples(sentence: Sentence) -> list[list[Any]]:
    return [list(entity) for entity in entities_of(sentence, False)]


FORMS: list[tuple[str, bool, Callable[[list[Sentence]], str]]] = [
    ("klue.tsv", False, klue),
    ("characters.txt", False, lambda s: lines(s, lambda n, pair: "\t".join(pair), characters)),
    ("kmou.txt", False, kmou),
    ("plain-kmou.txt", False, lambda s: kmou(s, comments=False)),
    ("naver", True, lambda s: lines(s, lambda n, p: f"{n + 1}\t{p[0]}\t{p[1]}", lambda s: eojeols(s, "{}_B", "-"))),
    ("conll.txt", True, lambda s: lines(s, lambda n, p: f"{p[0]} {p[1]}", lambda s: eojeols(s, "B-{}"))),
    ("suffix.tsv", True, lambda s: "word\ttag\n" + lines(s, lambda n, p: "\t".join(p), lambda s: eojeols(s, "{}-B"))),
    ("kobert-ner.tsv", True, lambda s: "".join(
        "\t".join(map(" ".join, zip(*eojeols(sentence, "{}-B"), strict=True))) + "\n" for sentence in s)),
    ("named.tsv", True, lambda s: "sentence\ttags\n" + "".join(
        "\t".join(map(" ".join, zip(*eojeols(sentence, "B-{}"), strict=True))) + "\n" for sentence in s)),
    ("commas.tsv", True, lambda s: "".join(
        f"{text_of(sentence)}\t{','.join(tag for _, tag in eojeols(sentence, 'B-{}'))}\n" for sentence in s)),
    ("colons.txt", True, lambda s: lines(s, lambda n, p: "\t".join(p), lambda s: eojeols(s, "b:{}", "o"))),
    ("dots.txt", True, lambda s: lines(s, lambda n, p: "\t".join(p), lambda s: eojeols(s, "{}.B"))),
    ("kaggle.csv", True, lambda s: csv_text([["Sentence #", "Word", "POS", "Tag"], *(
        [f"Sentence: {n}" if first else "", token, "X", tag]
        for n, sentence in enumerate(s) for first, (token, tag) in begun(eojeols(sentence, "B-{}")))])),
    ("of-sentences.tsv", True, lambda s: "sentence_id\tword\tlabel\n" + "".join(
        f"{n}\t{token}\t{tag}\n" for n, sentence in enumerate(s) for token, tag in eojeols(sentence, "B_{}"))),
    ("blank-rows.csv", True, lambda s: csv_text([["token", "tag"], *(
        row for sentence in s for row in (*eojeols(sentence, "B-{}"), ("", "")))])),
    ("semicolons.csv", True, lambda s: "token;tag\n" + lines(
        s, lambda n, p: ";".join(p), lambda s: eojeols(s, "B-{}"))),
    ("documents.csv", True, lambda s: csv_text([["doc_id", "sentence_id", "word", "tag"], *(
        [str(n), "1", token, tag] for n, sentence in enumerate(s) for token, tag in eojeols(sentence, "B-{}"))])),
    ("blank-lines-above.csv", False, lambda s: ",,\n,,\n" + csv_text([["id", "text", "entities"], *(
        [str(n), text_of(x), json.dumps(triples(x))] for n, x in enumerate(s))])),
    ("lists-of-datasets.jsonl", False, lambda s: rows_of(s, lambda s: {"text": text_of(s), "entities": {
        key: [entity[place] for entity in triples(s)] for place, key in enumerate(("start", "end", "label"))}})),
    ("printed.csv", False, lambda s: csv_text([["sentence", "tokens", "ner_tags"], *(
        map(str, by_datasets(sentence, numbers=True).values()) for sentence in s)])),
    ("numpy.csv", False, lambda s: csv_text([["tokens", "ner_tags"], *(
        [" ".join(str(row[name]).replace(",", "").split("\n")) for name in ("tokens", "ner_tags")]
        for row in (by_datasets(sentence, numbers=True) for sentence in s))])),
    ("texts-of-numbers.jsonl", False, lambda s: rows_of(s, lambda s: by_datasets(s, numbers=True) | {
        "ner_tags": list(map(str, by_datasets(s, numbers=True)["ner_tags"]))})),
    ("spacy.json", False, lambda s: json.dumps({"classes": ["PS"], "annotations": [
        [text_of(x), {"entities": triples(x)}] for x in s]})),
    ("datasets.jsonl", False, lambda s: rows_of(s, lambda s: by_datasets(s, numbers=False))),
    ("numbers.jsonl", False, lambda s: rows_of(s, lambda s: by_datasets(s, numbers=True))),
    ("morphemes.jsonl", False, lambda s: rows_of(s, morphemes_and_text)),
    ("doccano.jsonl", False, lambda s: rows_of(s, lambda s: {"text": text_of(s), "label": triples(s), "Comments": []})),
    ("old-doccano.jsonl", False, lambda s: rows_of(s, lambda s: {"data": text_of(s), "label": triples(s)})),
    ("relations.jsonl", False, lambda s: rows_of(s, lambda s: {"text": text_of(s), "relations": [], "entities": [
        {"label": kind, "start_offset": a, "end_offset": b} for a, b, kind in triples(s)]})),
    ("floats.json", False, lambda s: json.dumps([
        {"text": text_of(x), "spans": [[float(a), float(b), kind] for a, b, kind in triples(x)]} for x in s])),
    ("last.jsonl", False, lambda s: rows_of(s, lambda s: {"text": text_of(s), "entities": [
        entity | {"end": entity["end"] - 1} for entity in offsets(s)]})),
    ("studio.json", False, label_studio_json),
    ("studio-min.json", False, label_studio_minimal),
    ("studio.csv", False, label_studio_csv),
    ("modu.json", False, modu),
    ("tuples.csv", False, lambda s: csv_text([["text", "label"], *(
        [text_of(x), str([tuple(triple) for triple in triples(x)])] for x in s)])),
]  # fmt: skip
"""Name of the file, whether whole eojeols are marked, and the content for some sentences."""

parts = st.text("가나강릉한글민수ABc7😀", min_size=1, max_size=2)
eojeol = st.builds(
    Eojeol, parts, st.text("은는이가에서의", min_size=3, max_size=4), st.sampled_from(["PS", "LC", None])
)
sentences = st.lists(st.lists(eojeol, min_size=2, max_size=6), min_size=1, max_size=5).filter(
    lambda made: any(eojeol.type for sentence in made for eojeol in sentence)
)


@pytest.mark.parametrize(("name", "whole", "content"), FORMS, ids=[name for name, *_ in FORMS])
@settings(max_examples=30, deadline=None)
@given(made=sentences)
def test_a_file_in_and_its_sentences_out(tmp_path_factory, name: str, whole: bool, content: Any, made: list) -> None:
    path = tmp_path_factory.getbasetemp() / name
    path.write_text(content(made), encoding="utf-8", newline="")
    for task in ("ner", "tagging"):
        examples = Task.choose(task).read(path)
        assert [example["text"] for example in examples] == [text_of(sentence) for sentence in made]
        entities = [[tuple(entity) for entity in example["entities"]] for example in examples]
        assert entities == [entities_of(sentence, whole) for sentence in made]


STORY = [
    [Eojeol("김민수", "가", "PS"), Eojeol("부산", "에서", "LC"), Eojeol("배", "를", None), Eojeol("탔다", ".", None)],
    [Eojeol("박서연", "은", "PS"), Eojeol("강릉시청", "에", "LC"), Eojeol("갔다", ".", None)],
]


@pytest.mark.parametrize(("name", "content"), [(name, content) for name, whole, content in FORMS if not whole])
def test_every_entity_reaches_the_tokens_of_the_morpheme_tokenizer(
    tmp_path: Path, morpheme_tokenizer: MorphemeTokenizer, name: str, content: Any
) -> None:
    (tmp_path / name).write_text(content(STORY), encoding="utf-8", newline="")
    task: Any = Task.choose("ner").fit_labels([tmp_path / name])
    examples = task.read(tmp_path / name)
    counts = task.counts(Features(task.featurize(examples, morpheme_tokenizer, 64), examples))
    assert counts == {"entities": 4, "entity_borders_inside_tokens": 0, "entity_f1_ceiling": 100}


def test_a_lone_i_continues_the_entity_before_it(tmp_path: Path) -> None:
    """As in kor_ner."""
    names = ["I", "O", "B_OG", "B_TI", "B_LC", "B_DT", "B_PS"]
    row = {"tokens": ["오에", "겐자부로", "는", "작가"], "ner_tags": [6, 0, 1, 1]}
    (tmp_path / "a.jsonl").write_text(json_lines([row]), encoding="utf-8")
    [example] = Task.choose({"name": "tagging", "tag_names": names}).read(tmp_path / "a.jsonl")
    assert (example["text"], example["entities"]) == ("오에 겐자부로 는 작가", [[0, 7, "PS"]])


def test_types_of_one_s_own_may_end_like_tags(tmp_path: Path) -> None:
    """Kiwi's tags VV-I and VV-R are types of their own, since no tag begins a span."""
    row = {"tokens": ["걸", "어", "듣"], "tags": ["VV-I", "EC", "VV-R"]}
    (tmp_path / "a.jsonl").write_text(json_lines([row]), encoding="utf-8")
    [example] = Task.choose("tagging").read(tmp_path / "a.jsonl")
    assert [kind for *_, kind in example["entities"]] == ["VV-I", "EC", "VV-R"]


NO_TAGS = "which are no tags; B-X, I-X and O, or X and O, were expected"
REFUSED = [
    ("a.tsv", "재미있는 영화\t긍정\n지루한 영화\t부정\n", f"holds '.정', '.정', {NO_TAGS}"),
    ("a.tsv", "한 번 더\tonce more please\n다시\tagain\n", NO_TAGS),
    ("a.tsv", "sentence\tlabel\n영화가 좋다\t1\n", f"holds '1', {NO_TAGS}"),
    ("a.conllu", "1\t가방\tNOUN\t_\n2\t이\tADP\tSpaceAfter=No\n", "number, eojeol and tag was expected"),
    ("a.txt", "가방\tNOUN\t_\n이\tADP\tSpaceAfter=No\n", f"'SpaceAfter=No', {NO_TAGS}"),
    ("a.txt", "나 NP\n는 JX\n밥 NNG\n", NO_TAGS),
    ("a.tsv", "word\ttag\n", "holds no entit|is empty"),
    ("a.txt", "가방 B\n속 I\n안 O\n", f"holds 'B', 'I', {NO_TAGS}"),
    ("a.txt", "나 B-PS\n너 PS\n", "line 2: 'PS' is no tag as the others of the file are"),
    ("a.txt", "\n나 B-PS\n는 O\n# 주석 하나\n너 B-PS\n", "line 4: '하나' is no tag as the others of the file are"),
    ("a.csv", "Word,Tag\n나,B-PS\n너,PS\n", "line 3: 'PS' is no tag as the others of the file are"),
    ("a.txt", "나 I\n너 B-PS\n", "line 1: a tag I without a type follows no entity"),
    ("a.tsv", "나는 민수다\tO B-PS\n너는 누구냐\tO O O\n", "line 2: 2 eojeols and 3 tags; each has one"),
    ("a.txt", "나 O\n" * 60, "every token is one character, without the blanks between words"),
    ("a.txt", "나 O\n" * 60 + "10 O\n", "every token is one character, without the blanks between words"),
    ("a.jsonl", json_lines([{"text": "다른 글", "tokens": ["민수"], "tags": ["B-PS"]}]), "'민수'.* those of its text"),
    ("a.jsonl", json_lines([{"tokens": ["가방", "속"], "ner_tags": [0, 1]}]), "names in the option tag_names"),
    ("a.jsonl", json_lines([{"text": "김민수는", "spans": [{"start": 1, "end": 2, "text": "김민수", "label": "PS"}]}]),
     "an entity is '김민수', but from 1 to 2 the text has '민'"),
    ("a.jsonl", json_lines([{"text": "김민수는", "label": [[0, 3, ["PS", "LC"]]]}]), "an entity is"),
    ("a.jsonl", json_lines([{"text": "김민수는", "label": {"PS": ["김민수"], "LC": []}}]), "another form"),
    ("a.json", json.dumps([{"data": {"text": "글"}, "annotations": [{"result": []}] * 2}]), "2 annotations, but one"),
    ("a.tsv", "0\t김민수는\tB-PS\n0\t갔다\tO\n1\t끝\tO\n", "the first column holds numbers, not tokens"),
    ("a.jsonl", json_lines([{"text": "김민수는", "spans": [[0, 3, "PS"]], "answer": "reject"}]), "what Prodigy"),
    ("a.json", json.dumps([{"data": {"text": "글"}, "annotations": []}]), "it has no annotations, so nobody has"),
    ("a.json", json.dumps([{"data": {"text": "글"}, "annotations": [{"result": [], "was_cancelled": True}]}]),
     "0 annotations, but one"),
    ("a.json", json.dumps({"document": [{"id": "d"}]}), "entry 1 of document: it has none of paragraph, utterance"),
    ("a.json", json.dumps({"document": [{"sentence": [{"id": "d.1"}]}]}), "sentence d.1: .*an object with form"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "said"), REFUSED)
def test_what_has_no_tags_or_another_form_is_refused(tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=said):
        Task.choose("tagging").fit_labels([tmp_path / name])


def test_one_blank_among_words_leaves_the_spaces_between_them(tmp_path: Path) -> None:
    sentence = "김민수는\tB-PS\n어제\tO\n부산에\tB-LC\n갔다\tO\n\n" * 20
    (tmp_path / "a.tsv").write_text(f"{sentence}\xa0\tO\n끝\tO\n", encoding="utf-8")
    examples = Task.choose("tagging").fit_labels([tmp_path / "a.tsv"]).read(tmp_path / "a.tsv")
    assert examples[0]["text"] == "김민수는 어제 부산에 갔다"


def test_a_column_without_any_entity_gives_way_to_one_with_some(tmp_path: Path) -> None:
    rows = [{"text": "김민수는", "entities": [], "spans": [[0, 3, "PS"]]}, {"text": "글", "entities": [], "spans": []}]
    (tmp_path / "a.jsonl").write_text(json_lines(rows), encoding="utf-8")
    examples = Task.choose("tagging").fit_labels([tmp_path / "a.jsonl"]).read(tmp_path / "a.jsonl")
    assert [[tuple(entity) for entity in example["entities"]] for example in examples] == [[(0, 3, "PS")], []]


def test_white_space_inside_a_token_separates_no_columns(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1\u00a0000 B-QT\n원 I-QT\n\n김\u3000민수 B-PS\n는 O\n", encoding="utf-8")
    examples = Task.choose("tagging").fit_labels([tmp_path / "a.txt"]).read(tmp_path / "a.txt")
    assert [example["text"] for example in examples] == ["1\u00a0000 원", "김\u3000민수 는"]
    # where it is all that separates columns, it does
    (tmp_path / "b.txt").write_text("김민수\u00a0B-PS\n는\u3000O\n", encoding="utf-8")
    assert [
        example["text"] for example in Task.choose("tagging").fit_labels([tmp_path / "b.txt"]).read(tmp_path / "b.txt")
    ] == ["김민수 는"]


def test_all_wrong_lines_of_a_file_are_named(tmp_path: Path) -> None:
    """Bytes, columns and tags alike."""
    content = "가방 B-PS\n나\n\n".encode() + b"\xff\xff O\n" + "다람쥐 PS\n\n마을 B-LC\n\n바다\n사람\n".encode()
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(UserErrors) as caught:
        Task.choose("ner").read(tmp_path / "a.txt")
    places = ["line 4", "line 2", "line 5", "line 9", "line 10"]
    assert [sentence.split(": ")[0].rpartition(", ")[2] for sentence in caught.value.sentences] == places


FIRST_IS_A_MARK = [
    ("sentences.tsv", "# 오늘 서울\tO O LC-B\n민수가 갔다\tPS-B O\n", ["# 오늘 서울", "민수가 갔다"]),
    ("eojeols.txt", "##\tO\n서울\tB-LC\n", ["## 서울"]),
    ("morphemes.txt", "# SW\n서울 NNP\n가 O\n\n! SW\n서울 O\n", ["# 서울 가", "! 서울"]),
    ("comments.txt", "# sent_id = 1\n서울 B-LC\n", ["서울"]),
    ("heading.txt", "word entity\n서울 LC\n갔다 O\n", ["서울 갔다"]),
    ("named.tsv", "문장\t태그\n민수가 갔다\tPS O\n", ["민수가 갔다"]),
]


@pytest.mark.parametrize(("name", "content", "texts"), FIRST_IS_A_MARK, ids=[name for name, *_ in FIRST_IS_A_MARK])
def test_a_first_line_is_a_comment_a_heading_or_a_token(
    name: str, content: str, texts: list[str], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert [example["text"] for example in Task.choose("tagging").read(tmp_path / name)] == texts


def test_tags_that_differ_by_what_nobody_sees_are_one_type(tmp_path: Path) -> None:
    tags = ["B-PS", "B-PS\u200b", "B-PS ", "I-PS", "O "]
    (tmp_path / "a.jsonl").write_text(json_lines([{"tokens": list("가나다라마"), "tags": tags}]), encoding="utf-8")
    [example] = Task.choose("tagging").read(tmp_path / "a.jsonl")
    assert [kind for *_, kind in example["entities"]] == ["PS"] * 3


def test_one_wrong_entity_does_not_change_how_the_others_are_counted(tmp_path: Path) -> None:
    rows = label_studio_json([[Eojeol("😀민수", "가", "PS")], [Eojeol("😀박서연", "은", "PS")]])
    (tmp_path / "a.json").write_text(rows.replace('"start": 0, "end": 5', '"start": 1, "end": 5'), encoding="utf-8")
    with pytest.raises(UserError) as error:
        Task.choose("tagging").read(tmp_path / "a.json")
    assert "entry 2" in str(error.value) and "entry 1" not in str(error.value)
