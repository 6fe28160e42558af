"""Named entities: texts with tagged tokens or marked spans, in any form that published data sets have."""

from typing import Any, ClassVar, Literal

from kobert_pipeline.features.tagging import TaggingTask


class Ner(TaggingTask):
    """Sentences with a tag for each token, in a form that is detected: KLUE, Naver's challenge, KMOU's corpus, CoNLL,
    KoBERT-NER (a sentence, a tab, the tags of its eojeols), and tables as the task tagging reads them.

    Tags are B-X, B_X, X-B or X_B, and O. Tokens are joined by a space, or by nothing where white space is among
    them."""

    name: Literal["ner"] = "ner"
    sample: ClassVar[dict[str, Any]] = {"text": "세종대왕은 1443년에 한글을 만들었다."}
