"""What clients are answered, for the OpenAPI document."""

from pydantic import BaseModel, Field

from anydepth.server.depths import TextDepth


class ErrorAnswer(BaseModel):
    """Why a request was not met, in one sentence."""

    error: str


class DeepLErrorAnswer(BaseModel):
    """Why a request was not met, as DeepL's clients read it."""

    message: str


class LanguageAnswer(BaseModel):
    """A language, and those that it can be translated to."""

    code: str
    name: str
    targets: list[str]


class DetectionAnswer(BaseModel):
    """A language that a text may be written in; confidence from 0 to 100."""

    confidence: float = Field(ge=0, le=100)
    language: str


class HealthAnswer(BaseModel):
    """That the server is there."""

    status: str


class TranslateAnswer(BaseModel):
    """A translation, or a list of them for a list; what was not asked for is left out."""

    translatedText: str | list[str]  # noqa: N815
    detectedLanguage: DetectionAnswer | list[DetectionAnswer] | None = None  # noqa: N815
    alternatives: list[str] | list[list[str]] | None = None
    depth: TextDepth | list[TextDepth] | None = None


class DeepLTranslation(BaseModel):
    """A translation as DeepL's clients read it."""

    detected_source_language: str
    text: str
    billed_characters: int


class DeepLAnswer(BaseModel):
    """The translations of a request."""

    translations: list[DeepLTranslation]


class DeepLLanguage(BaseModel):
    """A language as DeepL's clients read it."""

    language: str
    name: str
    supports_formality: bool


class DeepLUsage(BaseModel):
    """What an owner had translated since the server started."""

    character_count: int
    character_limit: int
