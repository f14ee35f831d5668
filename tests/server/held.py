"""An engine that waits until it is told to search."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from tiny import tiny_model

from anydepth.exits.policies import Policy
from anydepth.inference.engines.torch_engine import TorchEngine
from anydepth.search.beam import Hypothesis
from anydepth.search.decoding import SearchSettings


@dataclass
class Held:
    """Holds every search until it is let go, and notes what was searched together."""

    may_go: threading.Event = field(default_factory=threading.Event)
    has_begun: threading.Event = field(default_factory=threading.Event)
    searched: list[list[int]] = field(default_factory=list)


class HeldEngine(TorchEngine):
    """The plain engine, which waits before each search."""

    def __init__(self, held: Held) -> None:
        super().__init__(tiny_model())
        self.held = held

    def search(
        self, sequences: Sequence[Sequence[int]], policy: Policy, settings: SearchSettings
    ) -> list[list[Hypothesis]]:
        self.held.has_begun.set()
        assert self.held.may_go.wait(60)
        self.held.searched.append([ids[0] for ids in sequences])
        if any(len(ids) == 3 for ids in sequences):
            raise RuntimeError("three tokens are too many")
        return super().search(sequences, policy, settings)
