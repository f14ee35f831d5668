"""Text in, text out: the Translator, and translations with the exit of every token."""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from anydepth.config.schema import DecodingConfig
from anydepth.errors import RunError, UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.parsing import parse_policy
from anydepth.exits.policies import Policy
from anydepth.inference.engines.choice import make_engine
from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.names import AUTOMATIC
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.inference.stream import arriving
from anydepth.runs.checked_vocabulary import RunVocabulary
from anydepth.runs.models import load_model
from anydepth.runs.operating_points import (
    OperatingPoint,
    PointSet,
    Wish,
    choose_point,
    engine_bits,
    kept_points,
    load_points,
)
from anydepth.runs.run import Run
from anydepth.search.beam import Hypothesis
from anydepth.search.decoding import AS_CONFIGURED, DecodingOptions, SearchSettings
from anydepth.text.marian import AnyTokenizer
from anydepth.text.tokenizer import WORD_START
from anydepth.vocabulary.names import FULL, parse_vocabulary
from anydepth.vocabulary.selection import WordSelection

LOG = logging.getLogger(__name__)
END_PIECE = "</s>"


def check_lines(lines: object) -> None:
    """Refuses what is no list of texts: one text alone, bytes, a set, whose order nobody knows, or
    an iterator."""
    if isinstance(lines, str):
        raise UsageError("translate takes a list of lines, not one text; write translate([text])")
    if not isinstance(lines, Sequence) or isinstance(lines, bytes | bytearray | memoryview):
        raise UsageError(
            f"translate takes a list of lines, not a {type(lines).__name__}; for an iterator there is translate_stream"
        )
    for number, line in enumerate(lines, 1):
        if not isinstance(line, str):
            raise UsageError(
                f"translate takes texts, but line {number:,} is a {type(line).__name__}; decode bytes as UTF-8 first"
            )


@dataclass(frozen=True)
class Translation:
    """A translated line, with one piece, exit and log-probability for each output token, the end of
    the sentence included.

    `source_length` counts the source tokens that were read, the end of the sentence included.
    `was_truncated` tells that the source was longer than the model's limit, so that only its
    beginning was translated. `words` is how many words the sentence could choose among: all of the
    vocabulary, unless words were selected before. `alternatives` are the n best translations, this one first, if more
    than one was asked for.
    """

    text: str = ""
    tokens: list[str] = field(default_factory=list)
    exits: list[int] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    score: float = 0.0
    source_length: int = 0
    was_truncated: bool = False
    words: int = 0
    alternatives: list["Translation"] = field(default_factory=list)

    @property
    def line(self) -> str:
        """The text without line breaks, so that it stays one line of output."""
        return self.text.replace("\n", " ").replace("\r", " ")

    def to_json(self) -> dict[str, Any]:
        """The translation as a JSON object."""
        return asdict(self)


class Translator:
    """Translates lines with a model, its two tokenizers and the decoding settings of its run."""

    def __init__(
        self,
        model: AdaptiveTransformer,
        source_tokenizer: AnyTokenizer,
        target_tokenizer: AnyTokenizer,
        config: DecodingConfig,
        *,
        run: Run | None = None,
        engine: Engine | None = None,
        vocabulary: RunVocabulary | None = None,
    ) -> None:
        self.run = run
        self.vocabulary = RunVocabulary(run) if vocabulary is None and run is not None else vocabulary
        self.told: set[str] = set()  # what was logged once
        self.model = model
        self.engine = engine or TorchEngine(model)
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.config = config

    @classmethod
    def load(
        cls, folder: str | Path, *, engine: str = AUTOMATIC, int8: bool = False, threads: int | None = None
    ) -> "Translator":
        """The translator of the run at `folder`; `engine` is "native", "onnx", "torch", or "auto"
        for the fastest at hand.

        `int8` asks for 8-bit products, which are faster and change a few words.
        """
        run = Run(Path(folder))
        model = load_model(run)
        made = make_engine(engine, model, int8=int8, threads=threads, run=run)
        return cls(made.model, *run.tokenizers(), run.config.decoding, run=run, engine=made)

    def with_engine(self, engine: Engine) -> "Translator":
        """The same translator with another engine."""
        sides = self.source_tokenizer, self.target_tokenizer
        return Translator(engine.model, *sides, self.config, run=self.run, engine=engine, vocabulary=self.vocabulary)

    def policy(self, text: str | None) -> Policy:
        """The policy that `text` names, as in "fixed:3"; full depth without one."""
        return parse_policy(f"fixed:{self.model.blocks}" if text is None else text, self.model)

    def tuned_policy(
        self,
        *,
        average_exit: float | None = None,
        flops: float | None = None,
        bleu_drop: float | None = None,
        time: float | None = None,
        policy: str | None = None,
        vocabulary: WordSelection | str | None = None,
    ) -> Policy:
        """The policy of the operating point that meets a wish best, as in tuned_policy(time=0.5);
        `anydepth tune` makes the points.

        `policy`, where given, names the family to choose from. The point is one that was tuned with
        the words of `vocabulary`, as `translate` takes it; where there is none, that is logged, and
        points of other words are chosen from.
        """
        wish, own = Wish(average_exit, flops, bleu_drop, time), self.words(vocabulary)
        name, sets = FULL if own is None else own.name, [] if self.run is None else kept_points(self.run)
        is_tuned = any(found.vocabulary == name for found in sets)
        if sets and not is_tuned:
            self._tell_once(f"no operating point was tuned with the vocabulary {name}; tune again with `anydepth tune`")
        return self.policy(
            self.operating_point(wish, policy=policy, vocabulary=own or FULL if is_tuned else None)[0].policy
        )

    def operating_point(
        self, wish: Wish, *, policy: str | None = None, vocabulary: WordSelection | str | None = None
    ) -> tuple[OperatingPoint, PointSet]:
        """The operating point of the run that meets `wish` best, and the tuning that found it.

        `policy` and `vocabulary`, where given, name the family and the vocabulary setting to choose
        from. Points of the engine's precision go before others.
        """
        if wish.is_empty:
            raise UsageError("nothing was wished for; give average_exit, flops, time or bleu_drop, as in time=0.5")
        if self.run is None:
            raise UsageError(
                f"{wish.describe()} needs the operating points of a run; make the translator with Translator.load"
            )
        sets = load_points(self.run, blocks=self.model.blocks)
        words = None if vocabulary is None else self.words(vocabulary)
        name = None if vocabulary is None else FULL if words is None else words.name
        point, found = choose_point(sets, wish, policy=policy, vocabulary=name, bits=engine_bits(self.engine.name))
        try:
            self.policy(point.policy)
        except UsageError as error:
            raise RunError(
                f"{self.run.points_file} has a point that this run cannot use: {error}; remove it and tune again"
            ) from error
        return point, found

    def words(self, vocabulary: WordSelection | str | None) -> WordSelection | None:
        """The selection that a vocabulary setting stands for, as in "table:50"; None is all words.

        Without a setting it is the one that the run's check chose, if there is one.
        """
        if vocabulary is None:
            return None if self.vocabulary is None else self.vocabulary.selection(None)
        if not isinstance(vocabulary, str):
            return vocabulary
        if self.vocabulary is None:
            if parse_vocabulary(vocabulary).kind == FULL:
                return None
            raise UsageError(
                f"--vocabulary {vocabulary} needs the word selections of a run; make the translator with "
                "Translator.load"
            )
        return self.vocabulary.selection(vocabulary)

    def search_settings(self, decoding: DecodingOptions = AS_CONFIGURED) -> SearchSettings:
        """The complete settings of a search, the selection of words included.

        Where the beam wants more words than the run's own selection may leave, all words are used;
        one that was asked for is refused.
        """
        words, settings = self.words(decoding.vocabulary), decoding.resolved(self.config)
        if words is not None and decoding.vocabulary is None and not settings.has_room(words):
            self._tell_once(
                f"beam = {settings.beam} wants {settings.wanted_words} words to choose from, but {words.name} may "
                f"leave {words.smallest}, so all words are used"
            )
            return settings
        return decoding.resolved(self.config, words)

    def _tell_once(self, text: str) -> None:
        if text not in self.told:
            self.told.add(text)
            LOG.warning("%s", text)

    def translate(
        self,
        lines: Sequence[str],
        *,
        policy: Policy | str | None = None,
        beam: int | None = None,
        length_penalty: float | None = None,
        best: int = 1,
        batch_tokens: int | None = None,
        vocabulary: WordSelection | str | None = None,
    ) -> list[Translation]:
        """The translations in the order of `lines`; a line of nothing but spaces has an empty one.

        Without a policy every token goes through every block. Other options that are not given come
        from the configuration. Similar lengths are searched together, as many as fit: sentences *
        beam * longest source <= `batch_tokens`. `vocabulary` is "full", "table:K" or "learned:P";
        without one, words are selected as the run's check chose.
        """
        decoding = DecodingOptions(
            beam=beam, length_penalty=length_penalty, best=best, batch_tokens=batch_tokens, vocabulary=vocabulary
        )
        return self.translate_lines(lines, policy, decoding)

    def translate_stream(
        self,
        lines: Iterable[str],
        *,
        policy: Policy | str | None = None,
        beam: int | None = None,
        length_penalty: float | None = None,
        best: int = 1,
        batch_tokens: int | None = None,
        vocabulary: WordSelection | str | None = None,
        window: int = 1024,
    ) -> Iterator[Translation]:
        """The translations one after the other, as soon as they can be had; lines that wait are
        translated together.

        `lines` is read ahead in a thread, by at most `window` lines. An error in reading comes
        after the lines before it.
        """
        decoding = DecodingOptions(
            beam=beam, length_penalty=length_penalty, best=best, batch_tokens=batch_tokens, vocabulary=vocabulary
        )
        for ready in arriving(lines, window=window):
            yield from self.translate_lines(ready, policy, decoding)

    def translate_lines(
        self, lines: Sequence[str], policy: Policy | str | None = None, decoding: DecodingOptions = AS_CONFIGURED
    ) -> list[Translation]:
        """`translate` for those who hand its options on in one piece."""
        settings = self.search_settings(decoding)
        check_lines(lines)
        policy = self.policy(policy) if policy is None or isinstance(policy, str) else policy
        encoded = self.source_tokenizer.encode_lines([line if line.strip() else "" for line in lines])
        numbers = [number for number, ids in enumerate(encoded) if ids]
        limit = self.model.config.max_length
        translations = [Translation()] * len(lines)
        found = self.engine.search([encoded[number][:limit] for number in numbers], policy, settings)
        for number, hypotheses in zip(numbers, found, strict=True):
            translations[number] = self.translation(hypotheses, source_length=len(encoded[number]))
        return translations

    def translation(self, hypotheses: Sequence[Hypothesis], *, source_length: int) -> Translation:
        """The best of a sentence's hypotheses as text; `source_length` counts all its tokens, without EOS."""
        vocab, limit = self.model.target_embedding.num_embeddings, self.model.config.max_length
        ranked = [
            Translation(
                text=self.target_tokenizer.decode(hypothesis.tokens),
                tokens=self.target_tokenizer.pieces(hypothesis.tokens),
                exits=hypothesis.exits,
                scores=hypothesis.token_scores,
                score=hypothesis.score,
                source_length=min(source_length, limit) + 1,
                was_truncated=source_length > limit,
                words=vocab if hypothesis.words is None else hypothesis.words,
            )
            for hypothesis in hypotheses
        ]
        return replace(ranked[0], alternatives=ranked) if len(ranked) > 1 else ranked[0]


def word_exits(pieces: Sequence[str], exits: Sequence[int]) -> list[tuple[str, list[int]]]:
    """Each word with the exits of its pieces, for showing; the end of the sentence is a word of its
    own."""
    words: list[tuple[bytes, list[int]]] = []
    for piece, left in zip(pieces, exits, strict=True):
        starts_word = piece.startswith(WORD_START) and bool(words) and words[-1][0] != b""
        if not words or starts_word or piece == END_PIECE:
            words.append((b"", []))
        text, so_far = words[-1]
        words[-1] = (text + _piece_bytes(piece), [*so_far, left])
    return [(text.decode("utf-8", errors="replace"), so_far) for text, so_far in words]


def _piece_bytes(piece: str) -> bytes:
    """What a piece writes: <0xE2> is a byte, U+2581 a space, which a word does without."""
    if byte := re.fullmatch(r"<0x([0-9A-F]{2})>", piece):
        return bytes([int(byte[1], 16)])
    return piece.replace(WORD_START, "").encode()
