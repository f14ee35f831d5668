"""The depth that a request asks for: a policy by name, or a wish that chooses a tuned operating
point."""

import threading
from dataclasses import asdict, dataclass
from typing import Any

from anydepth.errors import UsageError
from anydepth.exits.flops import DecoderShape, no_decision, sentence_flops
from anydepth.exits.policies import Policy
from anydepth.inference.translator import Translator
from anydepth.runs.checked_vocabulary import load_checked
from anydepth.runs.operating_points import OperatingPoint, PointSet, Wish, engine_bits, kept_points
from anydepth.search.decoding import DecodingOptions, SearchSettings
from anydepth.vocabulary.names import FULL

MOST_PLANS = 256  # that are kept for the next request
USUAL_LENGTH = 20  # tokens of a sentence, where the FLOPs of fixed exits are compared


@dataclass(frozen=True)
class Budget:
    """What a request says of its depth; nothing is full depth."""

    average_exit: float | None = None
    time: float | None = None
    flops: float | None = None
    bleu_drop: float | None = None
    policy: str | None = None
    vocabulary: str | None = None

    @property
    def wish(self) -> Wish:
        """The wish for an operating point; one that cannot be met is refused."""
        return Wish(average_exit=self.average_exit, flops=self.flops, bleu_drop=self.bleu_drop, time=self.time)


@dataclass(frozen=True, eq=False)
class SearchPlan:
    """How the sentences of a request are searched."""

    policy: Policy
    settings: SearchSettings

    @property
    def vocabulary(self) -> str:
        """The vocabulary setting by name."""
        return FULL if self.settings.words is None else self.settings.words.name


@dataclass(frozen=True)
class DepthOffer:
    """A budget that a client can choose, with what it cost and gave on the validation set: shares
    of full depth's FLOPs and time, and BLEU."""

    policy: str
    vocabulary: str
    average_exit: float
    flops: float
    time: float | None
    bleu: float | None
    is_full_depth: bool

    def to_json(self) -> dict[str, Any]:
        """The offer as an answer has it."""
        return asdict(self)


class RunBudgets:
    """The budgets of one run: what it can be asked for, and what a request's stands for."""

    def __init__(self, translator: Translator) -> None:
        assert translator.run is not None, "a server loads its translators from runs"
        self.translator, self.lock = translator, threading.Lock()
        self.sets = kept_points(translator.run)
        self.vocabularies = self._known_vocabularies()
        self.plans: dict[tuple[Budget, int], SearchPlan] = {}  # those of earlier requests, oldest first
        self.plan(Budget(), 0)  # most requests want this one

    def _known_vocabularies(self) -> list[str]:
        """The vocabulary settings that were measured: each takes memory, so clients choose among
        these."""
        assert self.translator.run is not None
        checked = load_checked(self.translator.run)
        measured = [] if checked is None else [each.vocabulary for each in checked.measured]
        tuned = [point.vocabulary for each in self.sets for point in each.points]
        default = self.translator.words(None)
        return list(dict.fromkeys([FULL, *([] if default is None else [default.name]), *measured, *tuned]))

    def known_plan(self, budget: Budget, alternatives: int) -> SearchPlan | None:
        """The plan of an earlier request that asked for the same, if it is kept."""
        return self.plans.get((budget, alternatives))

    def plan(self, budget: Budget, alternatives: int) -> SearchPlan:
        """The policy and the settings that a budget stands for, for so many translations beside the
        best; kept for the next request. Finding an operating point takes a look at files."""
        found = self.known_plan(budget, alternatives) or self._made_plan(budget, alternatives)
        with self.lock:
            self.plans[budget, alternatives] = found
            if len(self.plans) > MOST_PLANS:
                self.plans.pop(next(iter(self.plans)))
        return found

    def _made_plan(self, budget: Budget, alternatives: int) -> SearchPlan:
        if budget.vocabulary is not None and budget.vocabulary not in self.vocabularies:
            raise UsageError(
                f"vocabulary {budget.vocabulary} was not measured for this model; "
                f"choose one of {', '.join(self.vocabularies)}"
            )
        policy, vocabulary = budget.policy, budget.vocabulary
        if not budget.wish.is_empty:
            if not self.sets:
                raise UsageError(
                    f"{budget.wish.describe()}: this model has no operating points to choose from; ask for a policy, "
                    f"such as fixed:{max(1, self.translator.model.blocks // 2)}"
                )
            point, _ = self.translator.operating_point(budget.wish, policy=policy, vocabulary=vocabulary)
            policy, vocabulary = point.policy, point.vocabulary
        best = alternatives + 1
        beam = max(self.translator.config.beam, best)
        settings = self.translator.search_settings(DecodingOptions(beam=beam, best=best, vocabulary=vocabulary))
        return SearchPlan(self.translator.policy(policy), settings)

    def offers(self) -> list[DepthOffer]:
        """The budgets worth choosing, cheapest first, each better than all that cost less; full
        depth is the last."""
        sets = comparable(self.sets, engine_bits(self.translator.engine.name))
        points = [point for each in sets for point in each.points]
        if not points:
            return self._fixed_offers()
        is_timed = all(point.time_share is not None for point in points)
        offers: list[DepthOffer] = []
        for point in sorted(points, key=lambda point: (offer_cost(point, is_timed), -point.bleu)):
            if not offers or point.bleu > (offers[-1].bleu or 0.0):
                offers.append(
                    DepthOffer(
                        point.policy,
                        point.vocabulary,
                        point.average_exit,
                        point.flops_share,
                        point.time_share,
                        point.bleu,
                        False,
                    )
                )
        return [*offers, self._full_depth(time=1.0 if is_timed else None, bleu=sets[0].full_depth_bleu)]

    def _full_depth(self, *, time: float | None = None, bleu: float | None = None) -> DepthOffer:
        blocks = self.translator.model.blocks
        return DepthOffer(f"fixed:{blocks}", FULL, float(blocks), 1.0, time, bleu, True)

    def _fixed_offers(self) -> list[DepthOffer]:
        """One offer for each exit, where nothing was tuned."""
        model = self.translator.model
        shape = DecoderShape.of(model.config, model.target_embedding.num_embeddings)
        flops = {
            n: sentence_flops(shape, [n] * USUAL_LENGTH, USUAL_LENGTH, no_decision)
            for n in model.config.classifier_exits
        }
        below = [
            DepthOffer(f"fixed:{n}", FULL, float(n), flops[n] / flops[model.blocks], None, None, False)
            for n in model.config.classifier_exits
            if n < model.blocks
        ]
        return [*below, self._full_depth()]


def comparable(sets: list[PointSet], bits: int) -> list[PointSet]:
    """The sets of the engine's precision, or all where there is none, that were measured as the
    last of them."""
    alike = [each for each in sets if each.bits == bits] or sets
    return [each for each in alike if each.measured_as == alike[-1].measured_as]


def offer_cost(point: OperatingPoint, is_timed: bool) -> float:
    """What offers are sorted by: time where all have one, else FLOPs."""
    return point.flops_share if point.time_share is None or not is_timed else point.time_share
