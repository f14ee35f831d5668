"""Operating points by decoding the validation text: each is measured once, and remembered on
disk."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from anydepth.evaluation.bleu import score_texts
from anydepth.exits.flops import DecoderShape, no_decision, sentence_flops
from anydepth.exits.policies import FixedExit, Policy
from anydepth.files.atomic import write_text
from anydepth.files.checksums import checked_object, with_checksum
from anydepth.files.reading import checked
from anydepth.files.seal import check_kind
from anydepth.inference.translator import Translator
from anydepth.messages.say import Say
from anydepth.model.source import EncodedSource
from anydepth.runs.fingerprints import selection_fingerprint, weights_fingerprint
from anydepth.runs.operating_points import OperatingPoint, engine_bits
from anydepth.runs.run import Run
from anydepth.search.decoding import DecodingOptions
from anydepth.text.batches import make_source
from anydepth.text.tokens import TokenPairs, TokenSide
from anydepth.tuning.valid_text import ValidationText
from anydepth.vocabulary.names import FULL
from anydepth.vocabulary.selection import CandidateWords, WordSelection

ENCODED_TOGETHER = 64  # sentences whose words are selected at a time


@dataclass(frozen=True, eq=False)
class TunedSearch:
    """A policy and the words that it chooses from; None: all of them."""

    policy: Policy
    words: WordSelection | None = None

    @property
    def vocabulary(self) -> str:
        """The vocabulary setting."""
        return FULL if self.words is None else self.words.name

    def is_same(self, other: "TunedSearch") -> bool:
        """Whether both search alike."""
        return (self.policy.name, self.vocabulary) == (other.policy.name, other.vocabulary)


class DecodedPoints:
    """The validation text of one tuning, and the points that decoding it gives."""

    def __init__(
        self,
        translator: Translator,
        run: Run,
        text: ValidationText,
        decoding: DecodingOptions,
        say: Say,
        *,
        judge: TunedSearch | None = None,
    ) -> None:
        self.translator, self.run, self.text, self.decoding, self.say = translator, run, text, decoding, say
        self.judge = judge  # whose translations stand in place of the references
        self.model, self.blocks = translator.model, translator.model.blocks
        self.shape = DecoderShape.of(self.model.config, self.model.target_embedding.num_embeddings)
        self.file = run.folder / "tuning.jsonl"
        check_kind(self.file)
        self.search = decoding.resolved(translator.config)
        limit = self.model.config.max_length
        encoded = translator.source_tokenizer.encode_lines([line if line.strip() else "" for line in text.sources])
        self.numbers = [number for number, ids in enumerate(encoded) if ids]  # of the lines that are no blanks
        self.sentences = [encoded[number][:limit] for number in self.numbers]
        self.selected: dict[str, list[int]] = {}  # how many words each sentence has, by vocabulary setting
        self.recipe: dict[str, Any] = {
            "weights": weights_fingerprint(run),
            "valid": text.fingerprint,
            "beam": self.search.beam,
            "length_penalty": self.search.length_penalty,
        }
        if engine_bits(translator.engine.name) == 8:
            self.recipe["bits"] = 8
        if text.judged_by:
            self.recipe["judged_by"] = text.judged_by

    def full_depth(self) -> tuple[OperatingPoint, list[str]]:
        """Full depth with all words, which every share of a cost is measured from, and its
        translations."""
        full, texts = self.decode(TunedSearch(FixedExit(self.blocks, self.blocks)))
        self.say(f"full depth: BLEU {full.bleu:.2f}")
        return full, texts

    def judged_by_full_depth(self) -> "DecodedPoints":
        """The same text with what full depth makes of it, choosing from the words that the run has by
        default, in place of its references."""
        words = self.translator.search_settings(self.decoding).words
        judge = TunedSearch(FixedExit(self.blocks, self.blocks), words)
        point, texts = self.decode(judge)
        self.say(f"the judge is full depth with vocabulary {judge.vocabulary}: BLEU {point.bleu:.2f}")
        text = self.text.with_translations(texts)
        return DecodedPoints(self.translator, self.run, text, self.decoding, self.say, judge=judge)

    def judge_bleu(self, full: OperatingPoint) -> float:
        """The BLEU that every drop is measured from: that of `full`, which is full depth with all words,
        or of the judge."""
        return full.bleu if self.judge is None else self.decode(self.judge)[0].bleu

    def measured(self, searches: Sequence[TunedSearch]) -> list[OperatingPoint]:
        """The points of the searches, decoded now unless they were decoded before with the same
        weights, text, beam, vocabulary and precision."""
        before = self._remembered()
        points = []
        for number, search in enumerate(searches, 1):
            recipe = self._recipe_of(search)
            point = next((each for own, each in before if own == recipe and each.policy == search.policy.name), None)
            if point is None:
                point = self.decode(search)[0]
                before.append((recipe, point))
                write_text(self.file, "".join(remembered_line(own, each) for own, each in before))
            self.say(f"{number}/{len(searches)}  {point.describe()}")
            points.append(point)
        return points

    def decode(self, search: TunedSearch) -> tuple[OperatingPoint, list[str]]:
        """What the search gives on all sentences, and its translations, one for each line."""
        found = self.translator.engine.search(self.sentences, search.policy, replace(self.search, words=search.words))
        texts = [""] * len(self.text.sources)
        for number, (best, *_) in zip(self.numbers, found, strict=True):
            texts[number] = self.translator.target_tokenizer.decode(best.tokens)
        exits = [best.exits for best, *_ in found]
        every = [left for row in exits for left in row]
        return OperatingPoint(
            search.policy.name,
            score_texts(texts, self.text.references).bleu.value,
            sum(every) / len(every),
            self.flops_share(search, exits),
            vocabulary=search.vocabulary,
        ), texts

    def flops_share(self, search: TunedSearch, exits: Sequence[Sequence[int]]) -> float:
        """What tokens that left at `exits`, a row for each sentence, cost over what they would cost
        at full depth with all words (appendix B)."""
        sizes, choosing = self.sizes(search.words), 0 if search.words is None else search.words.flops()
        flops, full = 0, 0
        for row, ids, size in zip(exits, self.sentences, sizes or [self.shape.vocab] * len(exits), strict=True):
            own = replace(self.shape, vocab=size)
            flops += sentence_flops(own, row, len(ids) + 1, search.policy.cost) + choosing
            full += sentence_flops(self.shape, [self.blocks] * len(row), len(ids) + 1, no_decision)
        return flops / full

    @torch.inference_mode()
    def sizes(self, words: WordSelection | None) -> list[int] | None:
        """How many words each sentence may use; None if all of them."""
        if words is None:
            return None
        if words.name not in self.selected:
            found: list[int] = []
            for start in range(0, len(self.sentences), ENCODED_TOGETHER):
                tokens, mask = make_source(self.sentences[start : start + ENCODED_TOGETHER])
                source = EncodedSource(tokens, mask, self.model.encode(tokens, mask))
                found += CandidateWords.of_batch(self.model, words, source).sizes() or []
            self.selected[words.name] = found
        return self.selected[words.name]

    def pairs(self, targets: Sequence[str]) -> TokenPairs:
        """The sources as they are translated, with these targets, one for each line: blank lines
        are left out, and long ones are cut."""
        limit = self.model.config.max_length
        outputs = self.translator.target_tokenizer.encode_lines([targets[number] for number in self.numbers])
        return TokenPairs(
            TokenSide.from_sentences(self.sentences),
            TokenSide.from_sentences([output[: limit - 1] for output in outputs]),
        )

    def _recipe_of(self, search: TunedSearch) -> dict[str, Any]:
        if search.words is None:
            return self.recipe
        return self.recipe | {"vocabulary": search.vocabulary, "selection": self.selection(search.vocabulary)}

    def selection(self, vocabulary: str) -> str:
        """The fingerprint of the word selection of a vocabulary setting."""
        return selection_fingerprint(self.run, vocabulary)

    def _remembered(self) -> list[tuple[dict[str, Any], OperatingPoint]]:
        """The recipes and points that earlier tunings measured with the same weights; lines that
        are damaged are passed over."""
        lines = self.file.read_text(encoding="utf-8", errors="replace").splitlines() if self.file.exists() else []
        found = []
        for line in lines:
            try:
                value = checked_object(line)
                found.append((dict(value["recipe"]), checked(OperatingPoint, value["point"])))
            except (ValueError, KeyError, TypeError):
                continue
        return [(recipe, point) for recipe, point in found if recipe.get("weights") == self.recipe["weights"]]


def remembered_line(recipe: Mapping[str, Any], point: OperatingPoint) -> str:
    """A line of tuning.jsonl."""
    return json.dumps(with_checksum({"recipe": recipe, "point": asdict(point)})) + "\n"
