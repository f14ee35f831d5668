"""What a client asks: JSON, a form or a query, read into one typed question."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from starlette.exceptions import HTTPException
from starlette.requests import Request

from anydepth.files.reading import Unreadable, check_text, first_problem, parse_json, shortened
from anydepth.server.budgets import Budget
from anydepth.server.refusals import Refusal, missing, too_much
from anydepth.server.serving_limits import ServingLimits
from anydepth.server.translating import TextFormat

Share = Annotated[float, Field(allow_inf_nan=False)]
MOST_FIELDS = 1_000  # of a form: DeepL's clients repeat `text` for each text
JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
Question = TypeVar("Question", bound=BaseModel)


def checked_texts(value: object) -> object:
    """`value`, which must be a text or a list of texts, or missing."""
    texts = value if isinstance(value, list) else [value]
    if value is not None and not all(isinstance(text, str) for text in texts):
        raise ValueError("it must be a text or a list of texts")
    return value


class TranslateQuestion(BaseModel):
    """What POST /translate takes; all beyond LibreTranslate's own parameters is optional."""

    model_config = ConfigDict(json_schema_extra={"required": ["q", "source", "target"]})

    q: str | list[str] | None = Field(None, description="The text to translate, or a list of texts.")
    source: str | None = Field(None, description='The language of the text, as in "de"; "auto" finds out.')
    target: str | None = Field(None, description='The language to translate to, as in "en".')
    format: str | None = Field(
        None,
        description="Plain text, which is the default, or HTML, whose tags stay.",
        json_schema_extra={"enum": [*get_args(TextFormat), None]},
    )
    alternatives: int = Field(0, ge=0, description="How many more translations to give.")
    api_key: str | None = Field(None, description="The key, where the server wants one.")
    average_exit: Share | None = Field(None, description="Wish: the best tuned point of at most this average exit.")
    time: Share | None = Field(None, description="Wish: the best tuned point of at most this share of the time.")
    flops: Share | None = Field(None, description="Wish: the best tuned point of at most this share of the FLOPs.")
    bleu_drop: Share | None = Field(None, description="Wish: the cheapest tuned point that loses at most this BLEU.")
    policy: str | None = Field(None, description='A policy, as in "fixed:3"; with a wish, its family.')
    vocabulary: str | None = Field(None, description='The words to choose from, as in "full" or "table:100".')
    exits: bool = Field(False, description="Whether to tell how deep each word went.")

    @field_validator("q", mode="before")
    @classmethod
    def is_text(cls, value: object) -> object:
        """Refuses what is neither a text nor a list of texts."""
        return checked_texts(value)

    @property
    def texts(self) -> list[str]:
        """The texts to translate."""
        return [] if self.q is None else [self.q] if isinstance(self.q, str) else self.q

    @property
    def text_format(self) -> TextFormat:
        """What the texts are; anything that is neither plain nor HTML is refused in LibreTranslate's
        words."""
        match self.format or "text":
            case "text":
                return "text"
            case "html":
                return "html"
        raise Refusal(400, f"{shortened(str(self.format))} format is not supported")

    @property
    def budget(self) -> Budget:
        """What the question says of its depth."""
        return Budget(self.average_exit, self.time, self.flops, self.bleu_drop, self.policy, self.vocabulary)


class DetectQuestion(BaseModel):
    """What POST /detect takes."""

    model_config = ConfigDict(json_schema_extra={"required": ["q"]})

    q: str | list[str] | None = Field(None, description="The text whose language is asked for.")
    api_key: str | None = Field(None, description="The key, where the server wants one.")

    @field_validator("q", mode="before")
    @classmethod
    def is_text(cls, value: object) -> object:
        """Refuses what is neither a text nor a list of texts."""
        return checked_texts(value)


class DeepLQuestion(BaseModel):
    """What POST /v2/translate takes; DeepL's other parameters are read over."""

    model_config = ConfigDict(json_schema_extra={"required": ["text", "target_lang"]})

    text: list[str] | None = Field(None, description="The texts to translate.")
    source_lang: str | None = Field(None, description='The language of the texts, as in "DE"; without it, found out.')
    target_lang: str | None = Field(None, description='The language to translate to, as in "EN" or "EN-GB".')
    tag_handling: str | None = Field(None, description='"html" or "xml", whose tags stay.')


async def read_values(request: Request, *, lists: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The parameters of a request: those of a JSON body, or those of query and form together, the
    query first. Of a parameter that comes twice the first counts, but for `lists`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == JSON or kind.endswith("+json"):
        return _json_values(await request.body())
    pairs = list(request.query_params.multi_items())
    if kind in (FORM, MULTIPART):
        try:
            async with request.form(max_files=0, max_fields=MOST_FIELDS, max_part_size=2**24) as form:
                pairs += [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
        except HTTPException as error:
            raise Refusal(400, f"Invalid request: the form cannot be read ({error.detail})") from error
    else:
        await request.body()  # of whatever kind: its limits hold, and nobody reads it
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in lists:
            values.setdefault(name, []).append(value)
        else:
            values.setdefault(name, value)
    return values


def _json_values(body: bytes) -> dict[str, Any]:
    try:
        values = parse_json(body.decode("utf-8"))
    except (Unreadable, UnicodeDecodeError) as error:
        raise Refusal(400, f"Invalid JSON format ({error})") from error
    if not isinstance(values, dict):
        raise Refusal(400, "Invalid JSON format (the body is no object)")
    return values


def checked_question(kind: type[Question], values: Mapping[str, Any]) -> Question:
    """The question that `values` stand for; what is of another type or out of range is refused."""
    try:
        check_text(dict(values))
        return kind.model_validate(dict(values))
    except Unreadable as error:
        raise Refusal(400, f"Invalid request: {error}") from error
    except ValidationError as error:
        raise Refusal(400, f"Invalid request: {first_problem(error)}") from error


def check_translate(question: TranslateQuestion, limits: ServingLimits) -> tuple[str, str]:
    """The languages of a question that is complete and within the limits; LibreTranslate's words
    where it is not."""
    if not question.q:
        raise missing("q")
    if not question.source:
        raise missing("source")
    if not question.target:
        raise missing("target")
    check_size(question.texts, limits)
    if question.alternatives > limits.alternatives:
        raise too_much("alternatives", question.alternatives, limits.alternatives)
    return question.source, question.target


def check_size(texts: list[str], limits: ServingLimits) -> None:
    """Refuses more texts or characters than the server takes at a time."""
    if len(texts) > limits.items:
        raise too_much("batch", len(texts), limits.items)
    if (characters := sum(map(len, texts))) > limits.characters:
        raise too_much("text", characters, limits.characters)
