"""Python examples for the model card, one for each kind of head. A test runs them.

TEXT, TEXT_PAIR, QUESTION, CONTEXT and CHOICES stand for an example of the task's own domain.
"""

import json
import re
from typing import Any

from kobert_pipeline.features.answer_spans import APOSTROPHE, BRACKETS
from kobert_pipeline.questions.exact_match import LEVELS, NEAR, ROUNDING, TYPES
from kobert_pipeline.questions.pos_feature import CLASSES

EXAMPLE: dict[str, Any] = {
    "text": "오늘은 맑고 바람이 조금 분다.",
    "text_pair": "바람이 약간 부는 맑은 날이다.",
    "question": "한글은 누가 만들었는가?",
    "context": "한글은 세종대왕이 1443년에 만들었다.",
    "choices": ["그래서 산책하기 좋다.", "그래서 우산이 필요하다."],
}
"""What is shown where neither the task nor the data has an example."""


def with_example(code: str, example: dict[str, Any]) -> str:
    """The code with the texts of an example, which lacks none of those it has."""
    texts = {**EXAMPLE, **example}
    # JSON strings are Python strings too
    return re.sub(
        r"\b(?:TEXT_PAIR|TEXT|QUESTION|CONTEXT|CHOICES)\b",
        lambda match: json.dumps(texts[match.group().lower()], ensure_ascii=False),
        code,
    )


PAIRED = """from transformers import pipeline

classify = pipeline("text-classification", "PATH/TO/THIS/FOLDER", trust_remote_code=True)
print(classify({"text": TEXT, "text_pair": TEXT_PAIR}))"""
SEVERAL_LABELS = """from transformers import pipeline

classify = pipeline("text-classification", "PATH/TO/THIS/FOLDER", trust_remote_code=True)
thresholds = classify.model.config.task_specific_params["multilabel"].get("thresholds", 0.5)
of_label = thresholds if isinstance(thresholds, dict) else dict.fromkeys(classify.model.config.label2id, thresholds)
scores = classify(TEXT, top_k=None)
print([row for row in scores if row["score"] >= of_label[row["label"]]])"""
FILL = """from transformers import pipeline

fill = pipeline("fill-mask", "PATH/TO/THIS/FOLDER", trust_remote_code=True)
print(fill("대한민국의 수도는 [MASK]이다."))"""
VECTORS = """from sentence_transformers import SentenceTransformer

encoder = SentenceTransformer("PATH/TO/THIS/FOLDER", trust_remote_code=True)
print(encoder.encode(["대한민국의 수도는 서울이다."]).shape)"""
ONNX = """import onnxruntime
from transformers import AutoTokenizer

folder = "PATH/TO/THIS/FOLDER"
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
session = onnxruntime.InferenceSession(f"{folder}/onnx/model.onnx")
outputs = session.run(None, dict(tokenizer(["대한민국의 수도는 서울이다."], return_tensors="np")))"""
SPAN = """import torch
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

folder = "PATH/TO/THIS/FOLDER"
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
model = AutoModelForQuestionAnswering.from_pretrained(folder)
question, context = QUESTION, CONTEXT
inputs = tokenizer(question, context, return_tensors="pt", return_offsets_mapping=True, truncation="only_second")
offsets = inputs.pop("offset_mapping")[0].tolist()
outputs = model(**inputs)
inside = torch.tensor([side == 1 for side in inputs.sequence_ids(0)])
scores = outputs.start_logits[0][:, None] + outputs.end_logits[0][None, :]
scores = scores.masked_fill(~(inside[:, None] & inside[None, :]).triu().tril(29), -torch.inf)
start, end = divmod(int(scores.argmax()), len(offsets))"""
ANSWER = """
print(context[offsets[start][0] : offsets[end][1]])"""
ANSWER_OR_NONE = """
null_score = outputs.start_logits[0, 0] + outputs.end_logits[0, 0]  # [CLS]: the context does not answer
answered = null_score - scores.max() <= NULL_THRESHOLD
print(context[offsets[start][0] : offsets[end][1]] if answered else "")"""
WHOLE_WORDS = """
word_ids = inputs.word_ids(0)  # an answer begins and ends where words do
begins = torch.tensor([word != before for before, word in zip([None, *word_ids], word_ids)])
ends = torch.tensor([word != after for word, after in zip(word_ids, [*word_ids[1:], None])])
pairs = "PAIRS"  # and crosses no line break, and has both of these or none
def counts(text):
    return [text.count("\\n"), *(text.count(a) - text.count(b) for a, b in zip(pairs[::2], pairs[1::2]))]
plain = re.sub(r"APOSTROPHE", "'", context)
first, last = (torch.tensor([counts(plain[:place]) for place in places]) for places in zip(*offsets))
inside_words = begins[:, None] & ends[None, :] & (first[:, None] == last[None, :]).all(2)
scores = scores.masked_fill(~inside_words, -torch.inf)"""
PRIORS = """
# kobert predict and kobert serve also prefer, by what the analyzer Kiwi finds,
# PREFERRED;
# this example does not, so some of its answers are others"""
NO_THRESHOLD = """
# nor does it say where a context has no answer"""
PREFERRED = {
    "phrase": "phrases (dates, numbers, titles, names, nouns)",
    "type": "what the question asks for",
    "overlap": "sentences with its words",
}
"""What each of the `answer_priors` prefers."""
MATCHES = """
# token types of the context: 1 (few words of the question are near) to LEVELS, and as many for words of the question
ids, sides = inputs.input_ids[0].tolist(), inputs.sequence_ids(0)
places = [place for place, side in enumerate(sides) if side == 1]
asked, read = {ids[place] for place, side in enumerate(sides) if side == 0}, [ids[place] for place in places]
near = [asked & set(read[max(0, i - NEAR) : i + NEAR + 1]) for i in range(len(read))]
sums = [sum(1 / read.count(token) for token in tokens) for tokens in near]
levels = [min(int(LEVELS * (one / max(*sums, ROUNDING) + ROUNDING)), LEVELS - 1) for one in sums]
types = [1 + level + LEVELS * (token in asked) for level, token in zip(levels, read)]
inputs["token_type_ids"].zero_()[0, places] = torch.tensor(types)"""
PARTS_OF_SPEECH = """
# and by the part of speech of the token, 0 without Kiwi; in texts of composed Hangul (NFC)
groups = "CLASSES".split()
classes = [0] * (len(context) + 1)
for morpheme in analyzer.tokenize(context):
    number = next((n for n, group in enumerate(groups, 1) if morpheme.tag.startswith(tuple(group.split("|")))), 0)
    for character in range(morpheme.start, morpheme.end):
        classes[character] = classes[character] or number
types = [kind + TYPES * classes[offsets[place][0]] for kind, place in zip(types, places)]"""
USES = {
    "AutoModelForSequenceClassification": """from transformers import pipeline

classify = pipeline("text-classification", "PATH/TO/THIS/FOLDER", trust_remote_code=True)
print(classify(TEXT))""",
    "AutoModelForQuestionAnswering": SPAN + ANSWER,  # with options: `span_example`
    "AutoModelForMultipleChoice": """import torch
from transformers import AutoModelForMultipleChoice, AutoTokenizer

folder = "PATH/TO/THIS/FOLDER"
tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
model = AutoModelForMultipleChoice.from_pretrained(folder)
text, candidates = TEXT, CHOICES
inputs = tokenizer([text] * len(candidates), candidates, padding=True, truncation=True, return_tensors="pt")
scores = model(**{name: tensor[None] for name, tensor in inputs.items()}).logits[0]
print(candidates[int(scores.argmax())])""",
    "AutoModelForTokenClassification": """from transformers import pipeline

# stride: a text longer than the model's windows is read in several, which share 8 tokens
options = {"aggregation_strategy": "simple", "stride": 8}
tag = pipeline("token-classification", "PATH/TO/THIS/FOLDER", trust_remote_code=True, **options)
print(tag(TEXT))""",
    "AutoModelForPreTraining": FILL,
    "AutoModelForMaskedLM": FILL,
    "AutoModelForCausalLM": """from transformers import pipeline

write = pipeline("text-generation", "PATH/TO/THIS/FOLDER", trust_remote_code=True)
# without [SEP], after which the model begins another text
print(write("[CLS]대한민국의 수도는", add_special_tokens=False, max_new_tokens=30))""",
    "AutoModel": """from transformers import pipeline

embed = pipeline("feature-extraction", "PATH/TO/THIS/FOLDER", trust_remote_code=True)
print(len(embed(TEXT)[0]))""",
}


def span_example(options: dict[str, Any]) -> str:
    """The example of a model that answers questions about texts of one window, with the options of its task that it
    must be used with, such as `max_answer_tokens`; options that are left out have their defaults."""
    # tril(k) keeps ends up to k tokens after the start, which are answers of k + 1 tokens
    code = SPAN.replace("tril(29)", f"tril({options.get('max_answer_tokens', 30) - 1})")
    if options.get("question_token"):
        code = code.replace("tokenizer(question,", 'tokenizer(f"{question} {tokenizer.mask_token}",')
    if options.get("exact_match_feature"):
        # LEVELS - 1 before LEVELS, which is a part of it
        matches = MATCHES.replace("NEAR", str(NEAR)).replace("LEVELS - 1", str(LEVELS - 1))
        matches = matches.replace("LEVELS", str(LEVELS)).replace("ROUNDING", str(ROUNDING))
        if options.get("pos_feature"):
            groups = " ".join(map("|".join, CLASSES))
            tags = PARTS_OF_SPEECH.replace("CLASSES", groups).replace("TYPES", str(TYPES))
            # before the last line, which gives the types to the model
            before, last = matches.rsplit("\n", 1)
            matches, code = f"{before}{tags}\n{last}", f"from kiwipiepy import Kiwi\n{code}"
            code = code.replace("\nquestion, context =", "\nanalyzer = Kiwi()\nquestion, context =")
        code = code.replace("\noutputs =", matches + "\noutputs =")
    if options.get("whole_words"):
        whole_words = WHOLE_WORDS.replace("PAIRS", "".join(BRACKETS)).replace("APOSTROPHE", APOSTROPHE)
        code = "import re\n\n" + code.replace("\nstart, end =", whole_words + "\nstart, end =")
    threshold = options.get("null_threshold")
    priors = options.get("answer_priors", {})
    if preferred := [text for name, text in PREFERRED.items() if priors.get(name)]:
        remark = PRIORS.replace("PREFERRED", ",\n# ".join(preferred))
        # the threshold was tuned on scores with priors, and the scores of the example have none
        remark += NO_THRESHOLD if threshold is not None else ""
        code, threshold = code.replace("\nstart, end =", remark + "\nstart, end ="), None
    return code + (ANSWER if threshold is None else ANSWER_OR_NONE.replace("NULL_THRESHOLD", f"{threshold:.6g}"))
