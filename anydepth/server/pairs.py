"""The runs that a server has loaded: one for each language pair."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from anydepth.errors import UsageError
from anydepth.files.reading import shortened
from anydepth.inference.translator import Translator
from anydepth.server.budgets import RunBudgets
from anydepth.server.desk import Desk
from anydepth.server.languages import DetectedLanguage, LanguageDetector, language_name
from anydepth.server.refusals import Refusal


@dataclass(frozen=True, eq=False)
class ServedPair:
    """A run with its languages, its budgets and the desk at which its sentences are searched."""

    source: str
    target: str
    translator: Translator
    budgets: RunBudgets
    desk: Desk

    @property
    def name(self) -> str:
        """The pair as in "de-en"."""
        return f"{self.source}-{self.target}"


class ServedPairs:
    """All pairs of a server, found by their languages."""

    def __init__(self, pairs: Sequence[ServedPair]) -> None:
        self.pairs = {(pair.source, pair.target): pair for pair in pairs}
        self.codes = sorted({code for languages in self.pairs for code in languages})
        self.detector = LanguageDetector(self.codes)

    @property
    def sources(self) -> list[str]:
        """The languages that can be translated."""
        return sorted({source for source, _ in self.pairs})

    @property
    def targets_of_any(self) -> list[str]:
        """The languages that can be translated to."""
        return sorted({target for _, target in self.pairs})

    def targets(self, source: str) -> list[str]:
        """The languages that `source` can be translated to."""
        return sorted(target for own, target in self.pairs if own == source)

    def languages(self) -> list[dict[str, object]]:
        """All languages as LibreTranslate lists them."""
        return [{"code": code, "name": language_name(code), "targets": self.targets(code)} for code in self.codes]

    def pair(self, source: str, target: str) -> ServedPair:
        """The pair of these languages; others are refused in LibreTranslate's words."""
        for code in (source, target):
            if code not in self.codes:
                raise Refusal(400, f"{shortened(code)} is not supported")
        if (source, target) not in self.pairs:
            raise Refusal(
                400,
                f"{language_name(target)} ({target}) is not available as a target language from "
                f"{language_name(source)} ({source})",
            )
        return self.pairs[source, target]

    def detect(self, text: str) -> list[DetectedLanguage]:
        """The languages that `text` may be written in, the most likely first."""
        return self.detector.ranked(text)

    def detect_source(self, text: str, target: str) -> DetectedLanguage:
        """The most likely language of `text` among those that can be translated to `target`."""
        if target not in self.codes:
            raise Refusal(400, f"{shortened(target)} is not supported")
        for found in self.detect(text):
            if (found.language, target) in self.pairs:
                return found
        raise Refusal(400, f"no language that this server has can be translated to {language_name(target)} ({target})")

    def close(self) -> None:
        """Ends the desks when all that was submitted is searched."""
        for pair in self.pairs.values():
            pair.desk.close()


def load_pairs(
    runs: Sequence[Path],
    *,
    engine: str,
    int8: bool,
    threads: int | None,
    beam: int | None = None,
    on_search: Callable[[str, int], None] = lambda pair, sentences: None,
) -> ServedPairs:
    """The runs, loaded; two of the same languages are refused. `beam` goes before that of each run."""
    folders: dict[str, Path] = {}
    translators: list[tuple[str, str, Translator]] = []
    for folder in runs:
        translator = Translator.load(folder, engine=engine, int8=int8, threads=threads)
        if beam is not None:
            translator.config = translator.config.model_copy(update={"beam": beam})
        assert translator.run is not None
        note = translator.run.data_note()
        source, target = note["source_lang"], note["target_lang"]
        name = f"{source}-{target}"
        if name in folders:
            raise UsageError(f"{folders[name]} and {folder} both translate {name}; serve one of them")
        folders[name] = folder
        translators.append((source, target, translator))
    return ServedPairs([served_pair(*each, on_search=on_search) for each in translators])


def served_pair(
    source: str, target: str, translator: Translator, *, on_search: Callable[[str, int], None]
) -> ServedPair:
    """A translator with its budgets and its desk."""
    name = f"{source}-{target}"
    tokens = translator.config.batch_tokens
    desk = Desk(translator.engine, batch_tokens=tokens, on_search=lambda sentences: on_search(name, sentences))
    return ServedPair(source, target, translator, RunBudgets(translator), desk)
