"""Languages by their codes: English names, and which of those served a text is written in."""

from collections.abc import Sequence
from dataclasses import dataclass

from py3langid.langid import MODEL_FILE, LanguageIdentifier

NAMES = {
    "af": "Afrikaans",
    "ar": "Arabic",
    "az": "Azerbaijani",
    "be": "Belarusian",
    "bg": "Bulgarian",
    "bn": "Bengali",
    "bs": "Bosnian",
    "ca": "Catalan",
    "cs": "Czech",
    "cy": "Welsh",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "eo": "Esperanto",
    "es": "Spanish",
    "et": "Estonian",
    "eu": "Basque",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "ga": "Irish",
    "gl": "Galician",
    "gu": "Gujarati",
    "he": "Hebrew",
    "hi": "Hindi",
    "hr": "Croatian",
    "hu": "Hungarian",
    "hy": "Armenian",
    "id": "Indonesian",
    "is": "Icelandic",
    "it": "Italian",
    "ja": "Japanese",
    "ka": "Georgian",
    "kk": "Kazakh",
    "km": "Khmer",
    "ko": "Korean",
    "lt": "Lithuanian",
    "lv": "Latvian",
    "mk": "Macedonian",
    "ms": "Malay",
    "nb": "Norwegian Bokmål",
    "nl": "Dutch",
    "nn": "Norwegian Nynorsk",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sk": "Slovak",
    "sl": "Slovenian",
    "sq": "Albanian",
    "sr": "Serbian",
    "sv": "Swedish",
    "sw": "Swahili",
    "ta": "Tamil",
    "th": "Thai",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "ur": "Urdu",
    "vi": "Vietnamese",
    "zh": "Chinese",
}
MOST_LOOKED_AT = 2_000  # characters of a text, which tell its language as well as all of it


def language_name(code: str) -> str:
    """The English name of a language; its code where it is not known."""
    return NAMES.get(code, code)


@dataclass(frozen=True)
class DetectedLanguage:
    """A language that a text may be written in; confidence from 0 to 100, as LibreTranslate has it."""

    language: str
    confidence: float

    def to_json(self) -> dict[str, object]:
        """The language as an answer has it."""
        return {"confidence": round(self.confidence, 2), "language": self.language}


class LanguageDetector:
    """Tells which of some languages a text is written in."""

    def __init__(self, codes: Sequence[str]) -> None:
        """`codes` are the languages to choose from; one that the library does not know is never
        found."""
        self.codes = list(codes)
        identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        known = [code for code in codes if code in set(identifier.nb_classes)]
        self.identifier = identifier if len(known) > 1 else None
        self.known = known
        if self.identifier is not None:
            self.identifier.set_languages(known)

    def ranked(self, text: str) -> list[DetectedLanguage]:
        """All languages, the most likely first."""
        if self.identifier is None:
            likely = [(code, 1.0) for code in self.known[:1]]
        else:
            likely = [(str(code), float(share)) for code, share in self.identifier.rank(text[:MOST_LOOKED_AT])]
        others = [(code, 0.0) for code in self.codes if code not in {found for found, _ in likely}]
        return [DetectedLanguage(code, 100 * share) for code, share in [*likely, *others]]
