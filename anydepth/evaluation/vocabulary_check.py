"""What word selections are worth on held-out text, and the smallest that costs no quality."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from anydepth.errors import CorpusError, RunError, UsageError
from anydepth.evaluation.evaluation_table import aligned_table
from anydepth.evaluation.measure import measure
from anydepth.inference.translator import Translation, Translator
from anydepth.messages.say import Say
from anydepth.model.source import EncodedSource
from anydepth.runs.checked_vocabulary import CheckedVocabulary, MeasuredVocabulary, load_checked, save_checked
from anydepth.runs.fingerprints import selection_fingerprint, text_fingerprint, weights_fingerprint
from anydepth.runs.run import Run, changing, training_data, without_text
from anydepth.search.decoding import AS_CONFIGURED, DecodingOptions
from anydepth.text.batches import ordered_batches
from anydepth.text.corpus import read_pairs
from anydepth.text.overlap import MOST_OVERLAP, pairs_seen_in_training
from anydepth.text.tokenizer import EOS
from anydepth.text.tokens import TokenPairs, TokenSide
from anydepth.vocabulary.names import FULL, LEARNED, TABLE, VocabularyName, parse_vocabulary
from anydepth.vocabulary.selection import WordSelection

SIZES = {TABLE: (20.0, 50.0, 100.0), LEARNED: (0.03, 0.01, 0.003)}


@dataclass(frozen=True, kw_only=True)
class CheckSettings:
    """The vocabulary settings to measure, and how much BLEU the chosen one may cost; where all words
    are to stay the default, none is chosen."""

    vocabularies: tuple[str, ...]
    tolerance: float = 0.1
    keeps_all_words: bool = False
    decoding: DecodingOptions = AS_CONFIGURED

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance <= 100:
            raise UsageError(f"--tolerance {self.tolerance:g} is a loss of BLEU; give one between 0 and 100, as in 0.1")
        for name in self.vocabularies:
            parse_vocabulary(name)

    @classmethod
    def of_kind(
        cls,
        kind: str,
        sizes: Sequence[float] = (),
        *,
        tolerance: float,
        keeps_all_words: bool = False,
        decoding: DecodingOptions = AS_CONFIGURED,
    ) -> "CheckSettings":
        """Settings of one kind of selection, of the usual sizes where none are given."""
        names = tuple(str(VocabularyName(kind, size)) for size in sizes or SIZES[kind])
        return cls(vocabularies=names, tolerance=tolerance, keeps_all_words=keeps_all_words, decoding=decoding)


@dataclass(frozen=True)
class HeldOut:
    """The pairs that selections are checked on, as lines and as tokens."""

    prefix: str
    fingerprint: str
    sources: list[str]
    references: list[str]
    tokens: TokenPairs


def find_vocabulary(
    folder: Path, valid: str, settings: CheckSettings, learn: Callable[[Run], object], *, say: Say
) -> CheckedVocabulary:
    """What the settings are worth on PREFIX `valid` once `learn` has stored their selection with the
    run at `folder`; the run and the text are looked at first, since learning takes minutes."""
    with changing(folder):
        translator, run = Translator.load(folder), Run(folder)
        text = held_out(translator, run, valid, say)
        load_checked(run)  # a damaged file is reported before the work and not after it
        learn(run)
        return check_vocabulary(translator, run, text, settings, say=say)


def check_vocabulary(
    translator: Translator, run: Run, text: HeldOut, settings: CheckSettings, *, say: Say
) -> CheckedVocabulary:
    """What full depth gives on `text` with all words and with each of the settings, stored with the
    run.

    The chosen setting is that with the fewest words among those whose BLEU is within the tolerance
    of what all words give. Settings of another kind that were measured the same way before are
    chosen from, too.
    """
    names = [FULL, *settings.vocabularies]
    selections = {name: translator.words(name) for name in names}
    coverage = coverage_of(translator, text.tokens, [each for each in selections.values() if each is not None])
    measured: list[MeasuredVocabulary] = []
    full: list[Translation] = []
    for name, selection in selections.items():
        say(f"translating {len(text.sources):,} sentences with vocabulary {name}")
        decoding = replace(settings.decoding, vocabulary=name)
        figures, translations = measure(translator, text.sources, text.references, translator.policy(None), decoding)
        full = full or translations
        measured.append(
            MeasuredVocabulary(
                name,
                figures.scores.bleu.value,
                figures.words,
                1.0 if selection is None else coverage[selection.name],
                sum(own.text == other.text for own, other in zip(translations, full, strict=True)),
                selection_fingerprint(run, name),
            )
        )
    search = translator.search_settings(replace(settings.decoding, vocabulary=FULL))
    found = CheckedVocabulary(
        weights=weights_fingerprint(run),
        chosen=None,
        tolerance=settings.tolerance,
        beam=search.beam,
        length_penalty=search.length_penalty,
        engine=translator.engine.name,
        valid=text.prefix,
        valid_fingerprint=text.fingerprint,
        sentences=len(text.sources),
        pieces=translator.target_tokenizer.size,
        measured=tuple(measured),
    )
    everything = (*measured, *still_true(run, load_checked(run), found))
    chosen = None if settings.keeps_all_words else chosen_vocabulary(everything, settings.tolerance)
    found = replace(found, measured=everything, chosen=chosen)
    save_checked(run, found)
    return found


def still_true(run: Run, earlier: CheckedVocabulary | None, found: CheckedVocabulary) -> list[MeasuredVocabulary]:
    """What an earlier check measured the same way of other kinds of selections, which are as they
    were."""
    way = ("weights", "valid_fingerprint", "beam", "length_penalty", "engine")
    if earlier is None or any(getattr(earlier, name) != getattr(found, name) for name in way):
        return []
    again = {parse_vocabulary(each.vocabulary).kind for each in found.measured}
    others = [each for each in earlier.measured if parse_vocabulary(each.vocabulary).kind not in again]
    return [each for each in others if each.selection == selection_fingerprint(run, each.vocabulary)]


def chosen_vocabulary(measured: Sequence[MeasuredVocabulary], tolerance: float) -> str | None:
    """Of settings, all words first, the one with the fewest words whose BLEU is at most `tolerance`
    below that of all words; None if there is none."""
    full, *others = measured
    fitting = [each for each in others if each.bleu >= full.bleu - tolerance]
    return min(fitting, key=lambda each: (each.words, -each.bleu)).vocabulary if fitting else None


def held_out(translator: Translator, run: Run, valid: str, say: Say) -> HeldOut:
    """The pairs of PREFIX `valid`, which must not be empty nor part of the training text."""
    note = run.data_note()
    languages = note["source_lang"], note["target_lang"]
    pairs = list(read_pairs(valid, *languages))
    if not any(source.strip() and target.strip() for source, target in pairs):
        raise CorpusError(f"{valid}.{languages[0]} has no sentences; a vocabulary is checked on held-out text")
    try:
        seen = pairs_seen_in_training(training_data(run), pairs)
    except (RunError, CorpusError):
        say(f"warning: {without_text(note)}, so whether {valid} is part of it is unknown")
        seen = []
    if seen:
        told = f"{len(seen):,} of the {len(pairs):,} pairs of {valid} are in the training text"
        if len(seen) > MOST_OVERLAP * len(pairs):
            raise CorpusError(f"{told}, whose words a selection knows already; give held-out text")
        say(f"warning: {told}")
    sources, references = (list(side) for side in zip(*pairs, strict=True))
    limit = translator.model.config.max_length
    tokens = TokenPairs(
        TokenSide.from_sentences([ids[:limit] for ids in translator.source_tokenizer.encode_lines(sources)]),
        TokenSide.from_sentences([ids[:limit] for ids in translator.target_tokenizer.encode_lines(references)]),
    )
    return HeldOut(valid, text_fingerprint(valid, *languages), sources, references, tokens)


@torch.inference_mode()
def coverage_of(
    translator: Translator, pairs: TokenPairs, selections: Sequence[WordSelection], *, max_tokens: int = 4096
) -> dict[str, float]:
    """The share of the references' pieces, ends of sentences apart, that each selection allows."""
    selections = list({each.name: each for each in selections}.values())
    hits, pieces = dict.fromkeys((each.name for each in selections), 0), 0
    for batch in ordered_batches(pairs, max_tokens=max_tokens):
        memory = translator.model.encode(batch.source, batch.source_mask)
        source = EncodedSource(batch.source, batch.source_mask, memory)
        is_piece = batch.target_mask & (batch.targets != EOS)
        pieces += int(is_piece.sum())
        for selection in selections:
            hits[selection.name] += int((selection.allowed(source).gather(1, batch.targets) & is_piece).sum())
    return {name: count / max(pieces, 1) for name, count in hits.items()}


def vocabulary_table(found: CheckedVocabulary) -> str:
    """One row for each setting, then what was chosen and the recipe."""
    rows = [["vocabulary", "BLEU", "words", "% of all", "covered %", "same sentences"]]
    rows += [
        [
            each.vocabulary,
            f"{each.bleu:.2f}",
            f"{each.words:,.0f}",
            f"{100 * each.words / found.pieces:.1f}",
            f"{100 * each.coverage:.2f}",
            f"{each.same:,} of {found.sentences:,}",
        ]
        for each in found.measured
    ]
    bar = f"within {found.tolerance:g} BLEU of all words"
    notes = [
        f"default  {found.chosen}, the fewest words {bar}" if found.chosen else f"default  full: no selection is {bar}",
        f"recipe   full depth | valid {found.valid} ({found.sentences:,} sentences) | beam {found.beam} | length "
        f"penalty {found.length_penalty:g} | engine {found.engine}",
    ]
    return "\n".join([*aligned_table(rows), *notes])


def vocabulary_json(found: CheckedVocabulary) -> str:
    """Everything that was measured as one JSON object."""
    return json.dumps(asdict(found), indent=1, ensure_ascii=False)
