"""The folder that a run was adopted from, as its owner runs it today: by CTranslate2's own
conversion, or by transformers."""

import importlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from anydepth.bench.contestants import ContestantOutput, Sentences
from anydepth.clock.calls import Call
from anydepth.errors import UsageError
from anydepth.exits.flops import DecisionCost, DecoderShape, no_decision
from anydepth.inference.adopt.marian_settings import read_settings
from anydepth.inference.adopt.marian_text import read_tokenizers
from anydepth.inference.adopt.model_folder import ModelFolder
from anydepth.inference.adopt.tensor_names import SHARED, TARGET_EMBEDDING
from anydepth.inference.export.ctranslate2_folder import load_ctranslate2
from anydepth.messages.say import Say
from anydepth.runs.run import Run
from anydepth.search.decoding import SearchSettings
from anydepth.text.marian import PAD_PIECE, MarianTokenizer, MarianVocabulary
from anydepth.text.tokenizer import EOS
from anydepth.vocabulary.names import FULL

TRANSFORMERS = "transformers"


@dataclass(frozen=True)
class OriginalModel:
    """A MarianMT folder whose vocabulary is that of the measured run."""

    folder: Path
    shape: DecoderShape
    max_length: int
    source: MarianVocabulary
    target: MarianVocabulary


def find_original(run: Run, told: Path | None, *, is_needed: bool, say: Say) -> OriginalModel | None:
    """The model that the run was adopted from: in the folder `told`, or where the run has noted it
    and it is unchanged.

    None where the run was not adopted; and, unless it `is_needed`, where the folder is gone or
    another now, which one line says.
    """
    if told is not None:
        return read_original(run, told)
    noted = run.original()
    if noted is None:
        problem = f"{run.folder} does not tell from which folder it was adopted"
    elif not Path(noted.folder).is_dir():
        problem = f"{noted.folder}, which {run.folder} was adopted from, is no longer there"
    elif not noted.fingerprint:
        problem = f"{run.folder} has not noted what was in {noted.folder} when it was adopted"
    elif ModelFolder(Path(noted.folder)).fingerprint() != noted.fingerprint:
        problem = f"{noted.folder} is not as it was when {run.folder} was adopted from it"
    else:
        return read_original(run, Path(noted.folder))
    if is_needed:
        raise UsageError(f"{problem}; give the folder of the MarianMT model with --original DIR")
    if noted is not None:
        say(f"{problem}, so CTranslate2 takes the run's own model; --original DIR names the folder")
    return None


def read_original(run: Run, place: Path) -> OriginalModel:
    """The model in the folder `place`, which must have the vocabulary of the run."""
    folder = ModelFolder(place)
    settings = read_settings(folder)
    _, vocabularies = read_tokenizers(folder, settings, clean_up=False)
    own = [tokenizer.vocabulary for tokenizer in run.tokenizers() if isinstance(tokenizer, MarianTokenizer)]
    if [each.pieces for each in own] != [each.pieces for each in vocabularies]:
        raise UsageError(
            f"--original {place} has another vocabulary than {run.folder}; give the folder that it was adopted from"
        )
    config = settings.config.model
    shape = DecoderShape.of(config, len(vocabularies[1].names))
    return OriginalModel(place, shape, config.max_length, *vocabularies)


def odd_for_conversion(original: OriginalModel) -> str | None:
    """What CTranslate2's conversion would get wrong, as a phrase; None if nothing is known.

    It takes the last word for the start of decoding and starts from a zero embedding, as OPUS-MT
    does, and it knows one vocabulary.
    """
    target = original.target
    if original.source.pieces != target.pieces:
        return "it has two vocabularies, of which CTranslate2's conversion knows one"
    if (last := target.pieces[-1]) != PAD_PIECE or target.start != len(target.pieces) - 1:
        return f"its last word is {last!r}, which CTranslate2's conversion takes for the start"
    if not starts_from_zero(original):
        return "its decoder starts from an embedding that is not zero, as CTranslate2's conversion takes it to be"
    return None


def starts_from_zero(original: OriginalModel) -> bool:
    """Whether the embedding of the decoder's first input is zero."""
    tensors, _ = ModelFolder(original.folder).weights()
    table = tensors[TARGET_EMBEDDING] if TARGET_EMBEDDING in tensors else tensors[SHARED]
    return not bool(table[original.target.start].any())


def convert_original(original: OriginalModel, to: Path, *, precision: str) -> None:
    """Writes CTranslate2's own conversion of the folder to `to`, as `ct2-transformers-converter` does."""
    load_ctranslate2()
    load_transformers()
    from ctranslate2.converters import TransformersConverter

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            converter = TransformersConverter(str(original.folder))
            converter.convert(str(to), quantization="int8" if precision == "int8" else "float32", force=True)
    except (ValueError, RuntimeError, KeyError, OSError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"CTranslate2 cannot convert {original.folder} ({reason}); have it take the model as anydepth writes it, "
            "with --rival RUN"
        ) from error


@dataclass(frozen=True)
class TransformersContestant:
    """`MarianMTModel.generate` of transformers at full depth; rows of its vocabulary are looked up
    outside of the timed part."""

    model: Any
    original: OriginalModel
    system: str = TRANSFORMERS
    precision: str = "fp32"
    policy_name: str = ""
    vocabulary: str = FULL
    is_full_depth: bool = True
    model_name: str = ""
    selection_flops: int = 0

    @property
    def shape(self) -> DecoderShape:
        """The sizes of the folder's decoder."""
        return self.original.shape

    @property
    def cost(self) -> DecisionCost:
        """The output projection alone."""
        return no_decision

    def calls(self, sentences: Sentences, settings: SearchSettings, *, batch: int) -> list[Call]:
        """One call for each batch of similar lengths."""
        order = sorted(range(len(sentences)), key=lambda number: -len(sentences[number]))
        if batch == 1:
            order.sort()
        return [self._call(order[start : start + batch], sentences, settings) for start in range(0, len(order), batch)]

    def read(self, result: Any) -> ContestantOutput:
        """The words of an output up to its end, every one of which went through all blocks."""
        ids = self.original.target.ids
        tokens = [EOS if row == self.original.target.end else ids[row] for row in result[1:]]
        tokens = tokens[: tokens.index(EOS) + 1] if EOS in tokens else tokens
        return ContestantOutput(tokens, [self.shape.blocks] * len(tokens))

    def executed_flops(self) -> None:
        """Nothing is counted."""
        return None

    def _call(self, numbers: Sequence[int], sentences: Sentences, settings: SearchSettings) -> Call:
        source, padding = self.original.source, int(self.model.config.pad_token_id)
        rows = [[*(source.rows[token] for token in sentences[number]), source.end] for number in numbers]
        longest = max(len(each) for each in rows)
        tokens = torch.tensor([[*each, *[padding] * (longest - len(each))] for each in rows])
        mask = torch.tensor([[1] * len(each) + [0] * (longest - len(each)) for each in rows])
        options = generate_options(settings, limit=settings.limit(longest, max_length=self.original.max_length))

        def run() -> Sequence[Any]:
            with torch.inference_mode():
                found: list[Any] = self.model.generate(input_ids=tokens, attention_mask=mask, **options).tolist()
            return found

        return Call(numbers, run)


def generate_options(settings: SearchSettings, *, limit: int) -> dict[str, Any]:
    """The options of `generate` that make it search as wide and as far as we do; no output is longer
    than `limit`, its end included."""
    of_beams = {"length_penalty": settings.length_penalty, "early_stopping": settings.early_stopping}
    return {
        "num_beams": settings.beam,
        **(of_beams if settings.beam > 1 else {}),
        "do_sample": False,
        "max_length": limit + 1,  # with the start
        "min_length": 0 if settings.exact_length is None else limit + 1,
    }


def load_contestant(original: OriginalModel) -> TransformersContestant:
    """transformers with the folder's model, in float32."""
    package = load_transformers()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = package.MarianMTModel.from_pretrained(str(original.folder), dtype=torch.float32).eval()
    return TransformersContestant(model, original, policy_name=f"fixed:{original.shape.blocks}")


def load_transformers() -> ModuleType:
    """The package, which then says nothing but errors, or how to get it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            package = importlib.import_module(TRANSFORMERS)
    except ImportError as error:
        raise UsageError(
            "this needs the package transformers; get it with `pip install 'anydepth[huggingface]'`"
        ) from error
    package.logging.set_verbosity_error()
    package.logging.disable_progress_bar()
    return package
