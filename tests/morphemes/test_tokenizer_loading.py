"""The saved folder in other processes: without the package, without trust, without Kiwi, and in threads."""

import json
import os
import shutil

import pytest
import transformers
from transformers import BertConfig

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
    """`alone(blocked, code, *arguments)`: the last line that `code` printed in a process that cannot import `blocked`."""
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
import json, pickle
from transformers import AutoTokenizer
texts = json.loads(sys.argv[3])
first = AutoTokenizer.from_pretrained(sys.argv[2], trust_remote_code=True)
first.save_pretrained(sys.argv[4])
second = AutoTokenizer.from_pretrained(sys.argv[4], trust_remote_code=True)
third = pickle.loads(pickle.dumps(first))
rows = [(one(texts).input_ids, one(texts, return_offsets_mapping=True)["offset_mapping"]) for one in (first, second, third)]
print(json.dumps({"rows": rows, "package": "kobert_pipeline" in sys.modules}))
""",
        front_end.tokenizer,
        json.dumps(TEXTS),
        tmp_path / "again",
    )
    wanted = tokenizer(TEXTS, return_offsets_mapping=True)
    expected = json.loads(json.dumps([wanted.input_ids, wanted.offset_mapping]))
    assert found == {"rows": [expected] * 3, "package": False}


@pytest.mark.parametrize("with_model", [False, True], ids=["tokenizer folder", "model folder"])
def test_without_trust_it_raises_and_gives_no_other_tokenizer(alone, front_end, tmp_path, with_model):
    folder = shutil.copytree(front_end.tokenizer, tmp_path / "folder")
    if with_model:
        BertConfig(vocab_size=3000, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32).save_pretrained(
            folder
        )
    code = """
import json
from transformers import AutoTokenizer
try:
    answer = type(AutoTokenizer.from_pretrained(sys.argv[2])).__name__
except Exception as error:
    answer = "raised: " + str(error)
print("\\n" + json.dumps(answer))
"""
    answer = alone("kobert_pipeline", code, folder)
    assert answer.startswith("raised: ")


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
def test_a_class_of_transformers_raises_and_comes_up_with_no_other_vocabulary(front_end, name):
    with pytest.raises((Exception,), match=r"\w"):  # each with words of its own
        getattr(transformers, name).from_pretrained(front_end.tokenizer)


@pytest.mark.parametrize("how", ["AutoTokenizer", "MorphemeTokenizer"])
def test_without_kiwi_it_says_what_to_install(alone, front_end, how):
    load = {
        "AutoTokenizer": "from transformers import AutoTokenizer as T\noptions = {'trust_remote_code': True}",
        "MorphemeTokenizer": "from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer as T\noptions = {}",
    }[how]
    code = f"""
import json
{load}
try:
    answer = type(T.from_pretrained(sys.argv[2], **options)).__name__
except ImportError as error:
    answer = "ImportError: " + str(error)
print("\\n" + json.dumps(answer))
"""
    answer = alone("kiwipiepy", code, front_end.tokenizer)
    assert answer.startswith("ImportError: ")
    assert "pip install kiwipiepy" in answer


@pytest.mark.parametrize("settings", ["the same settings", "other settings"])
def test_two_threads_get_what_one_gets(alone, front_end, bundled, settings):
    """In a process of its own, because threads that wait for one another would hang the whole suite."""
    texts = [document.text[:300] for document in bundled[:24]]
    code = """
import faulthandler, json
faulthandler.dump_traceback_later(30, exit=True)
from concurrent.futures import ThreadPoolExecutor
from kobert_pipeline.morphemes.morpheme_tokenizer import MorphemeTokenizer
tokenizer = MorphemeTokenizer.from_pretrained(sys.argv[2])
texts = json.loads(sys.argv[3])
other = {"truncation": True, "max_length": 12, "padding": "max_length"} if sys.argv[4] == "other settings" else {}
calls = [(texts[:16], {}), (texts[8:], other)]
ask = lambda call: [tokenizer(call[0], return_offsets_mapping=True, **call[1])["offset_mapping"] for _ in range(6)]
serial = [ask(call) for call in calls]
with ThreadPoolExecutor(2) as threads:
    print(json.dumps(list(threads.map(ask, calls)) == serial))
"""
    assert alone("nothing", code, front_end.tokenizer, json.dumps(texts), settings) is True
