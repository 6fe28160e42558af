"""The saved folder in other processes: without the package, without trust, without Kiwi, and in threads."""

import json
import os
import pickle
import shutil
import warnings
from typing import Any

import pytest
import transformers
from datasets.fingerprint import Hasher
from tokenizers import Tokenizer
from transformers import BertConfig

from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer

BLOCK = """
import sys
class Block:
    def __init__(self, *names): self.names = names
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names: raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block(*sys.argv[1].split(",")))
"""
TEXTS = ["무대 위에서 했다", "재밌었다ㅋㅋ 😀\t쀍", "ᄒᆞᆫ글 갔다"]


@pytest.fixture
def alone(fresh, tmp_path):
    """`alone(blocked, code, *arguments)`: the last line that `code` printed in a process that cannot import
    `blocked`."""
    environment = os.environ | {
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }

    def call(blocked, code, *arguments):
        result = fresh(BLOCK + code, blocked, *arguments, env=environment, cwd=tmp_path, timeout=120)
        assert result.code == 0, result.err[-3000:]
        return json.loads(result.out.splitlines()[-1])

    return call


def test_it_loads_and_saves_where_only_transformers_and_kiwi_are(alone, front_end, tokenizer, tmp_path):
    found = alone(
        "kobert_pipeline",
        """
import gc, json, kiwipiepy, pickle
from transformers import AutoTokenizer
texts = json.loads(sys.argv[3])
first = AutoTokenizer.from_pretrained(sys.argv[2], trust_remote_code=True)
first.save_pretrained(sys.argv[4])
second = AutoTokenizer.from_pretrained(sys.argv[4], trust_remote_code=True)
third = pickle.loads(pickle.dumps(first))
ask = lambda one: (one(texts).input_ids, one(texts, return_offsets_mapping=True)["offset_mapping"])
rows = [ask(one) for one in (first, second, third)]
analyzers = sum(isinstance(one, kiwipiepy.Kiwi) for one in gc.get_objects())
print(json.dumps({"rows": rows, "package": "kobert_pipeline" in sys.modules, "analyzers": analyzers}))
""",
        front_end.tokenizer,
        json.dumps(TEXTS),
        tmp_path / "again",
    )
    wanted = tokenizer(TEXTS, return_offsets_mapping=True)
    expected = json.loads(json.dumps([wanted.input_ids, wanted.offset_mapping]))
    assert found == {"rows": [expected] * 3, "package": False, "analyzers": 1}


@pytest.mark.slow
def test_without_trust_it_raises_and_gives_no_other_tokenizer(alone, front_end, tmp_path):
    with_model = shutil.copytree(front_end.tokenizer, tmp_path / "with_model")
    BertConfig(
        vocab_size=3000, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    ).save_pretrained(with_model)
    code = """
import json
from transformers import AutoTokenizer
answers = []
for folder in sys.argv[2:]:
    try:
        answers.append(type(AutoTokenizer.from_pretrained(folder)).__name__)
    except Exception as error:
        answers.append("raised: " + str(error))
print("\\n" + json.dumps(answers))
"""
    for answer in alone("kobert_pipeline", code, front_end.tokenizer, with_model):
        assert answer.startswith("raised: ")
        assert "trust_remote_code=True" in answer


@pytest.mark.parametrize(
    "name",
    [
        "BertTokenizer",
        "BertTokenizerFast",
        "ElectraTokenizer",
        "RobertaTokenizer",
        "PreTrainedTokenizerFast",
        "AlbertTokenizer",
        "GPT2Tokenizer",
        "T5Tokenizer",
    ],
)
def test_a_class_of_transformers_raises_and_comes_up_with_no_other_vocabulary(name: Any, front_end):
    with pytest.raises(ValueError, match=r"trust_remote_code=True"):
        getattr(transformers, name).from_pretrained(front_end.tokenizer)


def test_pipelines_and_sentence_transformers_name_the_flag_and_load_with_it(front_end, tmp_path, monkeypatch):
    import sentence_transformers

    folder = shutil.copytree(front_end.tokenizer, tmp_path / "folder")
    config = BertConfig(
        vocab_size=3000, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, num_labels=2
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    monkeypatch.setattr("builtins.input", lambda _: "n")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    loads = [
        lambda **flag: transformers.pipeline("text-classification", model=str(folder), **flag),
        lambda **flag: sentence_transformers.SentenceTransformer(str(folder), device="cpu", **flag),
    ]
    for load in loads:
        with pytest.raises(ValueError, match=r"trust_remote_code=True"):
            load()
        made = load(trust_remote_code=True)
        assert type(made.tokenizer).__name__ == "MorphemeTokenizer"


def test_a_subfolder_and_a_prefix_work_as_far_as_transformers_lets_them(front_end, tokenizer, tmp_path):
    """`AutoTokenizer` looks for code at the top only, whoever wrote it; the folder itself loads."""
    loaded = transformers.AutoTokenizer.from_pretrained
    MorphemeTokenizer.from_pretrained(front_end.tokenizer).save_pretrained(tmp_path / "tok")
    assert MorphemeTokenizer.from_pretrained(tmp_path, subfolder="tok")(TEXTS).input_ids == tokenizer(TEXTS).input_ids
    with pytest.raises(OSError, match=r"morpheme_tokenizer\.py"):
        loaded(tmp_path, subfolder="tok", trust_remote_code=True)
    assert loaded(tmp_path / "tok", trust_remote_code=True)(TEXTS).input_ids == tokenizer(TEXTS).input_ids
    files = tokenizer.save_pretrained(tmp_path / "named", filename_prefix="x")
    names = ["x-morphemes.json", "x-tokenizer_config.json"]
    assert sorted(files) == [str(tmp_path / "named" / name) for name in names]
    assert set(names) <= {path.name for path in (tmp_path / "named").iterdir()}


@pytest.mark.slow
def test_calls_do_not_change_the_fingerprint(alone, front_end):
    """The hash by which `datasets` finds its cache is the same in another process, whatever was called there before."""
    calls = """
def calls(own):
    own("한번")
    windows = {"truncation": True, "padding": True, "max_length": 8, "stride": 1, "return_overflowing_tokens": True}
    own(["가", "나 다"], ["다", "라"], **windows)
    own(["가", "나"], padding="max_length", max_length=9).encodings[1].offsets
    own(["가", "[MASK] 나"], is_split_into_words=True, split_special_tokens=True)
    own.pad(own(["가", "나 다"]), padding=True)
    own.decode(own.tokenize("무대") and [5, 6])
    own.backend_tokenizer.encode("무대 위에서")
"""
    code = (
        """
import json
from datasets.fingerprint import Hasher
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
own = MorphemeTokenizer.from_pretrained(sys.argv[2])
"""
        + calls
        + """
found = [Hasher.hash(own)]
calls(own)
found.append(Hasher.hash(own))
own.add_tokens(["<새것>"])
print(json.dumps([*found, Hasher.hash(own)]))
"""
    )
    first, after, another = alone("nothing", code, front_end.tokenizer)
    assert first == after != another
    assert Hasher.hash(MorphemeTokenizer.from_pretrained(front_end.tokenizer)) == first


def test_the_backend_by_itself_spells_as_the_plain_tokenizer(front_end, tokenizer, tmp_path):
    """Whoever takes it out of ours, reads `morphemes.json` or builds on either."""
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    plain = Tokenizer.from_file(str(front_end.tokenizer / "plain" / "tokenizer.json"))
    saved = Tokenizer.from_file(str(front_end.tokenizer / "morphemes.json"))
    for text in [*TEXTS, "그 배우는 무대 위에서 노래했다."]:
        wanted = plain.encode(text)
        assert set(wanted.tokens) - {"[CLS]", "[SEP]", "[UNK]"}
        for backend in (saved, tokenizer.backend_tokenizer, pickle.loads(pickle.dumps(tokenizer)).backend_tokenizer):
            assert backend.encode(text).tokens == wanted.tokens
    made = StaticEmbedding(MorphemeTokenizer.from_pretrained(front_end.tokenizer), embedding_dim=4)
    assert (
        made.preprocess(["그 배우는 무대"])["input_ids"].tolist()
        == plain.encode("그 배우는 무대", add_special_tokens=False).ids
    )


def test_the_tagging_pipeline_joins_eojeols_and_is_silent(front_end):
    config = BertConfig(
        vocab_size=3000, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, num_labels=9
    )
    model = transformers.BertForTokenClassification(config).eval()
    tokenizer = MorphemeTokenizer.from_pretrained(front_end.tokenizer)
    text = "배우는 무대 위에서 노래했다."
    for strategy in ("first", "average", "max"):
        tagger = transformers.pipeline(
            "token-classification", model=model, tokenizer=tokenizer, aggregation_strategy=strategy
        )
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            found = tagger(text, ignore_labels=[])
        assert not [one for one in warned if "real words" in str(one.message)]
        ends = {place for start in found for place in (start["start"], start["end"])}
        assert ends <= {0, 3, 4, 6, 7, 10, 11, 16}


@pytest.mark.slow
@pytest.mark.parametrize("children", [1, 3])
def test_a_child_forked_while_another_thread_encodes_encodes_too(alone, front_end, children):
    code = """
import faulthandler, json, os, threading
faulthandler.dump_traceback_later(100, exit=True)
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
tokenizer = MorphemeTokenizer.from_pretrained(sys.argv[2])
texts = json.loads(sys.argv[3])
pairs = {"text_pair": texts, "truncation": True, "max_length": 12, "padding": True}
wanted = [tokenizer(texts)["input_ids"], tokenizer(texts, **pairs)["input_ids"]]
going = True
def work():
    while going:
        tokenizer(texts), tokenizer(texts, **pairs)
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
codes = []
for _ in range(int(sys.argv[4])):
    child = os.fork()
    if not child:
        same = [tokenizer(texts)["input_ids"], tokenizer(texts, **pairs)["input_ids"]] == wanted
        os._exit(0 if same else 3)
    codes.append(os.waitpid(child, 0)[1])
going = False
for thread in threads: thread.join()
print(json.dumps(codes))
"""
    assert alone("nothing", code, front_end.tokenizer, json.dumps(TEXTS * 3), children) == [0] * children


@pytest.mark.slow
def test_without_kiwi_it_says_what_to_install(alone, front_end):
    code = """
import json
from transformers import AutoTokenizer
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
answers = []
for kind, options in ((AutoTokenizer, {"trust_remote_code": True}), (MorphemeTokenizer, {})):
    try:
        answers.append(type(kind.from_pretrained(sys.argv[2], **options)).__name__)
    except ImportError as error:
        answers.append("ImportError: " + str(error))
print("\\n" + json.dumps(answers))
"""
    for answer in alone("kiwipiepy", code, front_end.tokenizer):
        assert answer.startswith("ImportError: ")
        assert "pip install kiwipiepy" in answer


@pytest.mark.slow
def test_two_threads_get_what_one_gets(alone, front_end, bundled):
    """In a process of its own, because threads that wait for one another would hang the whole suite."""
    texts = [document.text[:300] for document in bundled[:24]]
    code = """
import faulthandler, json
faulthandler.dump_traceback_later(100, exit=True)
from concurrent.futures import ThreadPoolExecutor
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
tokenizer = MorphemeTokenizer.from_pretrained(sys.argv[2])
texts = json.loads(sys.argv[3])
ask = lambda call: [tokenizer(call[0], return_offsets_mapping=True, **call[1])["offset_mapping"] for _ in range(4)]
same = []
for other in ({}, {"truncation": True, "max_length": 12, "padding": "max_length"}):
    calls = [(texts[:16], {}), (texts[8:], other)]
    serial = [ask(call) for call in calls]
    with ThreadPoolExecutor(2) as threads:
        same.append(list(threads.map(ask, calls)) == serial)
print(json.dumps(same))
"""
    assert alone("nothing", code, front_end.tokenizer, json.dumps(texts)) == [True, True]
