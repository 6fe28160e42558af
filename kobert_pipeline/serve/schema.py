"""The bodies of requests and answers, which are also the server's OpenAPI page."""

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from kobert_pipeline.errors import did_you_mean
from kobert_pipeline.morphemes.normalization import replace_surrogates

Row = TypeVar("Row")
UNKNOWN_FIELD = "unknown_field"
"""The type of that error."""


def expected(what: str) -> WrapValidator:
    """Name what was expected, instead of a complaint from each member of a union."""

    def validate(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError:
            message = "{what} was expected, and at most {most} elements"
            raise PydanticCustomError("expected", message, {"what": what, "most": f"{MAX_ELEMENTS:,}"}) from None

    return WrapValidator(validate)


# JSON may hold halves of characters, which no answer could repeat
Text = Annotated[str, AfterValidator(replace_surrogates)]
# strict, or pydantic would take true, "1" and 1.0 for ids
TokenId = Annotated[int, Field(strict=True, ge=0)]
MAX_ELEMENTS = 10_000
"""Elements of any list; `Limits` allows fewer texts, and models fewer tokens."""
# without fail_fast a list of a million wrong elements would make as many errors, in gigabytes
NotEmpty = Field(min_length=1, max_length=MAX_ELEMENTS, fail_fast=True)
Texts = Annotated[Text | Annotated[list[Text], NotEmpty], expected("a text or a list of texts")]
TextsOrIds = Annotated[
    Text | Annotated[list[Text], NotEmpty] | Annotated[list[TokenId], NotEmpty] | Annotated[
        list[Annotated[list[TokenId], NotEmpty]], NotEmpty
    ],
    expected("a text, a list of texts, a list of token ids or a list of such lists"),
]  # fmt: skip


class Strict(BaseModel):
    """An object in which an unknown field is an error, so that a misspelt one is noticed."""

    # what is written below a field is on the OpenAPI page
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, value: Any) -> Any:
        # pydantic alone would make an error for each of a million unknown fields
        names = value if isinstance(value, dict) else ()
        unknown = next((name for name in names if name not in cls.model_fields), None)
        if unknown is not None:
            message = f"there is no field {unknown!r:.40}{did_you_mean(unknown, cls.model_fields)}"
            raise PydanticCustomError(UNKNOWN_FIELD, "{message}", {"message": message})
        return value


class Body(Strict):
    """What every request has."""

    model: str | None = None
    """The name of a served checkpoint; default: the only one that answers this path."""


class Pair(Strict):
    """Two texts that are labelled together."""

    text: Text
    text_pair: Text


ToLabel = Annotated[
    Text | Pair | Annotated[list[Text | Pair], NotEmpty] | Annotated[list[TokenId], NotEmpty] | Annotated[
        list[Annotated[list[TokenId], NotEmpty]], NotEmpty
    ],
    expected('a text, a pair {"text": ..., "text_pair": ...}, a list of them, or token ids'),
]  # fmt: skip


class TextsBody(Body):
    """Texts."""

    input: Texts


class ClassifyBody(Body):
    """Texts, pairs of texts, or token ids as `/v1/tokenize` gives them, special tokens included."""

    input: ToLabel


class AnswerBody(Body):
    """A question, and the texts; each of them is searched for the answer."""

    question: Text
    context: Texts


class FillBody(TextsBody):
    """Texts with [MASK]."""

    top_k: int = Field(5, ge=1, le=1000)
    """Tokens for each [MASK]."""


class EmbeddingsBody(Body):
    """OpenAI's request. Token ids are as `/v1/tokenize` gives them, special tokens included."""

    input: TextsOrIds
    encoding_format: Literal["float", "base64"] = "float"
    user: str | None = None
    """Ignored; OpenAI's clients may send it."""


class SimilarBody(Body):
    """A query, and the texts that are compared with it."""

    query: Text
    texts: Annotated[list[Text], NotEmpty] | None = None
    """Default: those of the server's index (`kobert serve --index`)."""
    by: Literal["mean", "cls", "max", "first-last", "bm25", "hybrid"] | None = None
    """How to rank, as `kobert similar --by`; default: the pooling of the model's training. In an index: hybrid (the
    default), its pooling or bm25, and bm25 alone where it has no vectors of this model."""
    top_k: int = Field(5, ge=1)
    """Texts in the answer."""


class Document(BaseModel):
    """A text as an object."""

    text: Text


Documents = Annotated[list[Text | Document], NotEmpty, expected('a list of texts, or of objects {"text": ...},')]


class RerankBody(Body):
    """A query, and the texts to order by it: TEI's request with `texts`, Jina's and Cohere's with `documents`."""

    query: Text
    texts: Annotated[list[Text], NotEmpty] | None = None
    raw_scores: bool = False
    """Log-odds, or what a model with one output gives, in place of the numbers from 0 to 1 that the sigmoid makes of
    them."""
    return_text: bool = False
    """Whether the answer repeats the `texts`."""
    truncate: bool = True
    """Ignored: of a pair that is too long the end of the longer text is always left out."""
    truncation_direction: Literal["right", "Right"] = "right"
    """Ignored; TEI's clients may send it."""
    documents: Documents | None = None
    top_n: int | None = Field(None, ge=1)
    """The number of `documents` in the answer; default: all."""
    return_documents: bool = True
    """Whether the answer repeats the `documents`."""


class Label(BaseModel):
    """A label, or any number of them for models of several, with the probabilities of all labels; of a regression the
    score alone; null for a blank text. Without texts for token ids. `truncated` is there, and true, where a text has
    more tokens than the model reads and the encoder read its beginning alone."""

    text: str | None = None
    text_pair: str | None = None
    label: str | None = None
    labels: list[str] | None = None
    scores: dict[str, float] | None = None
    score: float | None = None
    truncated: bool | None = None


class Answer(BaseModel):
    """An answer with its characters in the context; `probability` is null where the model was not calibrated, and
    there is a `null_score` where it may find none."""

    question: str
    answer: str
    start: int
    end: int
    score: float | None
    probability: float | None
    null_score: float | None = None


class Filled(BaseModel):
    """The likeliest tokens for each [MASK] of a text, with their probabilities."""

    text: str
    masks: list[dict[str, float]]


class Entity(BaseModel):
    """A marked span of a text."""

    start: int
    end: int
    text: str
    label: str
    score: float


class Tagged(BaseModel):
    """A text with its entities."""

    text: str
    entities: list[Entity]


class Tokens(BaseModel):
    """The tokens of a text, and which of its characters each is from."""

    text: str
    tokens: list[str]
    input_ids: list[int]
    offset_mapping: list[tuple[int, int]]


class Ranked(BaseModel):
    """A text, its number in the request or the index, and its similarity; of an index also where the text was read: its
    `line`, or of a table its `row` and the `id` it may have, and the `file` where there were several."""

    index: int
    score: float
    text: str
    file: str | None = None
    line: int | None = None
    row: int | None = None
    id: str | int | None = None


class Reranked(BaseModel):
    """TEI's row: the number of a text in the request, its relevance, and the text if asked for."""

    index: int
    score: float
    text: str | None = None


class Relevance(BaseModel):
    """Jina's row: the number of a document in the request, its relevance, and the document if asked for."""

    index: int
    relevance_score: float
    document: Document | None = None


class Embedding(BaseModel):
    """A vector; in base64 its float32 numbers, little-endian."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """Tokens that were read."""

    prompt_tokens: int
    total_tokens: int


class Results(BaseModel, Generic[Row]):
    """A row for each text, in the order of the request."""

    object: Literal["list"]
    model: str
    data: list[Row]


class Embeddings(Results[Embedding]):
    """The vectors in the form of OpenAI's answer."""

    usage: Usage


class Reranking(BaseModel):
    """Jina's answer, the most relevant document first."""

    model: str
    results: list[Relevance]
    usage: Usage


class Refusal(BaseModel):
    """What is wrong, in one sentence, and the kind of error."""

    message: str
    type: str


class Error(BaseModel):
    """The body of every answer that is not 200."""

    error: Refusal


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What the OpenAPI page says of answers with these statuses."""
    return {status: {"model": Error} for status in statuses}


ERRORS = errors(400, 401, 404, 413, 422, 429, 500, 503, 504)
"""The errors of paths that ask a model."""
