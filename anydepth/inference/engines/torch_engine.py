"""The plain step in PyTorch as an engine."""

from collections.abc import Sequence

from anydepth.errors import UsageError
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.policies import Policy
from anydepth.inference.engines.engine import Engine
from anydepth.inference.engines.plain_search import plain_search
from anydepth.runs.run import Run
from anydepth.search.beam import Hypothesis
from anydepth.search.decoding import SearchSettings
from anydepth.vocabulary.selection import WordSelection


class TorchEngine(Engine):
    """Search over the plain step of a model, which every policy is written for."""

    def __init__(self, model: AdaptiveTransformer, *, name: str = "torch") -> None:
        super().__init__(model, name=name)

    @classmethod
    def make(cls, model: AdaptiveTransformer, *, int8: bool, threads: int | None, run: Run | None) -> Engine:
        """The plain step; torch's own number of threads is what counts."""
        if int8:
            raise UsageError(
                "the torch engine has no 8-bit products; leave out --int8 or take --engine native or --engine onnx"
            )
        return cls(model)

    @classmethod
    def is_at_hand(cls, *, int8: bool, blocks: int, run: Run | None) -> bool:
        """Always, in float32."""
        return not int8

    def supports(self, policy: Policy) -> str | None:
        """Every policy is supported."""
        return None

    def supports_words(self, words: WordSelection) -> str | None:
        """Every selection is supported."""
        return None

    def own_search(
        self, sequences: Sequence[Sequence[int]], policy: Policy, settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        """The best hypotheses of each sentence."""
        return plain_search(self.model, sequences, policy, settings)
