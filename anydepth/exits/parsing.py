"""From the text of a policy, as in "geometric:0.5", to the policy of a model."""

import difflib
import re
from collections.abc import Sequence

from anydepth.errors import UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.flops import (
    confidence_decision,
    geometric_decision,
    shortlist_decision,
    similarity_decision,
    units_decision,
)
from anydepth.exits.halting import GeometricHalting, MultinomialHalting, SequenceHalting
from anydepth.exits.names import POLICY_FORMS, THRESHOLD_FAMILIES
from anydepth.exits.policies import FixedExit, MultinomialExit, Policy, SequenceExit, UniformExit
from anydepth.exits.thresholds import (
    Confidence,
    HaltProbability,
    Margin,
    ShortlistConfidence,
    Similarity,
    ThresholdExit,
    check_thresholds,
)
from anydepth.limits import LARGEST_SEED, MOST_BLOCKS, MOST_PIECES

DEFAULT_SEED = 1
DEFAULT_THRESHOLD = 0.5
DEFAULT_SHORTLIST = 64
MOST_DIGITS = 40  # of a whole number; Python itself refuses to read thousands of them
TRAINED = {"sequence": SequenceHalting, "multinomial": MultinomialHalting, "geometric": GeometricHalting}


def parse_policy(text: str, model: AdaptiveTransformer) -> Policy:
    """The policy that `text` names, as in "fixed:3", "uniform:7", "geometric:0.5" or
    "confidence:0.9,0.8,0.8,0.7,0.7", for `model`."""
    check_not_empty(text)
    name, _, argument = text.strip().partition(":")
    exits, blocks = model.config.classifier_exits, model.blocks
    if name not in POLICY_FORMS:
        near = difflib.get_close_matches(name, POLICY_FORMS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"there is no policy {text!r}; {hint}known: {', '.join(POLICY_FORMS.values())}")
    if name == "fixed":
        return FixedExit(_block_number(text, argument, exits), blocks)
    if len(exits) < blocks:
        raise UsageError(
            f"{text}: choosing exits needs one after every block, but {_exits_of(exits)}; use fixed:{exits[-1]}"
        )
    if name == "uniform":
        return UniformExit(_seed(text, argument), blocks)
    if name in ("sequence", "multinomial") and argument:
        raise UsageError(f"{text}: {name} takes the most probable exit and has no thresholds; write {name}")
    if name in TRAINED:
        return _trained(text, name, argument, model)
    family, values = threshold_family(name, argument)
    if not values:
        raise UsageError(
            f"{text}: {name} needs thresholds, as in {POLICY_FORMS[name].replace('TAU,...', '0.9')}; `anydepth "
            "tune` finds them"
        )
    return threshold_policy(family, check_thresholds(text, _numbers(text, values), blocks), model)


def check_policy(text: str, *, blocks: int | None, family: str) -> None:
    """Refuses what is neither a fixed exit nor a policy of `family` with thresholds, in a model of
    `blocks` blocks where that is known."""
    name, _, argument = text.partition(":")
    if name == "fixed":
        n = _whole(argument) if re.fullmatch(r"[0-9]+", argument) else None
        if n is None or not 1 <= n <= (blocks or MOST_BLOCKS):
            raise UsageError(f"{text} is no exit of {'any model' if blocks is None else f'a model of {blocks} blocks'}")
        return
    if name not in THRESHOLD_FAMILIES or threshold_family(name, argument)[0] != family:
        raise UsageError(f"{text} is not a policy of the family {family}")
    values = _numbers(text, threshold_family(name, argument)[1])
    check_thresholds(text, values, len(values) + 1 if blocks is None else blocks)


def check_not_empty(text: str | None) -> None:
    """Refuses a policy that is given and names nothing, or is no text; none at all is fine."""
    if not isinstance(text, str | None):
        raise UsageError(
            f"a policy is a text, not a {type(text).__name__}; name one of {', '.join(POLICY_FORMS.values())}"
        )
    if text is not None and not text.strip():
        raise UsageError(
            f"the policy {text!r} is empty; name one of {', '.join(POLICY_FORMS.values())}, or leave it out"
        )


def threshold_family(name: str, argument: str) -> tuple[str, str]:
    """The family and the thresholds in the text of a policy: ("shortlist:64", "0.9") for
    "shortlist" and "64:0.9"."""
    if name != "shortlist":
        return name, argument
    size, _, values = argument.partition(":")
    size = size or str(DEFAULT_SHORTLIST)
    if not re.fullmatch(r"[1-9][0-9]*", size):
        raise UsageError(
            f"shortlist:{argument}: the shortlist is a number of words, then come thresholds, as in "
            f"shortlist:{DEFAULT_SHORTLIST}:0.9"
        )
    if (words := _whole(size)) is None or words > MOST_PIECES:
        raise UsageError(
            f"shortlist:{argument}: no vocabulary has so many words; make the shortlist {MOST_PIECES:,} or shorter"
        )
    return f"shortlist:{size}", values


def threshold_policy(family: str, thresholds: Sequence[float], model: AdaptiveTransformer) -> ThresholdExit:
    """The policy of `family`, such as "confidence" or "shortlist:64", with one threshold for each
    block but the last.

    A shortlist longer than the vocabulary is the vocabulary.
    """
    name, _, size = family.partition(":")
    halting, taus = model.halting, tuple(thresholds)
    match name:
        case "geometric":
            require_halting(family, "geometric", model)
            assert isinstance(halting, GeometricHalting)
            cost = units_decision(halting.units) if halting.units else geometric_decision
            return ThresholdExit(family, taus, lambda words: HaltProbability(halting), cost, halting)
        case "confidence":
            return ThresholdExit(family, taus, Confidence, confidence_decision)
        case "margin":
            return ThresholdExit(family, taus, Margin, confidence_decision)
        case "similarity":
            return ThresholdExit(family, taus, lambda words: Similarity(), similarity_decision)
        case "shortlist":
            listed = min(int(size), model.target_embedding.num_embeddings)
            return ThresholdExit(
                f"{name}:{listed}", taus, lambda words: ShortlistConfidence(words, listed), shortlist_decision(listed)
            )
    raise UsageError(f"{family} has no thresholds; those that have: {', '.join(THRESHOLD_FAMILIES)}")


def require_halting(text: str, kind: str, model: AdaptiveTransformer) -> None:
    """Refuses a policy whose halting module the run was not trained with."""
    if not isinstance(model.halting, TRAINED[kind]):
        has = next((name for name, module in TRAINED.items() if isinstance(model.halting, module)), None)
        own = f"it has the {has} module" if has else "it has none"
        units = (
            " --set exits.halting_units=0"
            if isinstance(model.halting, GeometricHalting) and model.halting.units
            else ""
        )
        raise UsageError(
            f"{text}: this run was not trained with the {kind} halting module ({own}); "
            f"train one with `anydepth train --from RUN --to NEW --set exits.halting={kind}{units}`"
        )


def _trained(text: str, name: str, argument: str, model: AdaptiveTransformer) -> Policy:
    require_halting(text, name, model)
    if isinstance(model.halting, SequenceHalting):
        return SequenceExit(model.halting, model.blocks)
    if isinstance(model.halting, MultinomialHalting):
        return MultinomialExit(model.halting, model.blocks)
    values = _numbers(text, argument) if argument else [DEFAULT_THRESHOLD]
    return threshold_policy(name, check_thresholds(text, values, model.blocks), model)


def _numbers(text: str, values: str) -> list[float]:
    try:
        return [float(value) for value in values.split(",")]
    except ValueError:
        raise UsageError(f"{text}: thresholds are numbers from 0 to 1 with commas between, as in 0.9,0.8") from None


def _block_number(text: str, argument: str, exits: Sequence[int]) -> int:
    """The block of the policy `text` that its argument names, which must be one of `exits`."""
    if not re.fullmatch(r"-?[0-9]+", argument):
        raise UsageError(f"{text}: a fixed exit is a block number, as in fixed:{exits[-1]}")
    if (n := _whole(argument)) is None or n not in exits:
        raise UsageError(f"{text}: {_exits_of(exits)}")
    return n


def _seed(text: str, argument: str) -> int:
    """The seed in "7" or "seed=7" (the form that recipes print)."""
    digits = argument.removeprefix("seed=")
    if argument and not re.fullmatch(r"[0-9]+", digits):
        raise UsageError(f"{text}: the seed is a whole number from 0 on, as in uniform:{DEFAULT_SEED}")
    if not argument:
        return DEFAULT_SEED
    if (seed := _whole(digits)) is None or seed > LARGEST_SEED:
        raise UsageError(
            f"{text}: the seed is a whole number of 63 bits; take a smaller one, as in uniform:{DEFAULT_SEED}"
        )
    return seed


def _whole(digits: str) -> int | None:
    """The number that the digits, with a sign or without, write; None for one that is too long to
    be meant."""
    return int(digits) if len(digits) <= MOST_DIGITS else None


def _exits_of(exits: Sequence[int]) -> str:
    if len(exits) == 1:
        return f"this model has exit {exits[0]} only"
    return f"this model has exits {exits[0]} to {exits[-1]}"
