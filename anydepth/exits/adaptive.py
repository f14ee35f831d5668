"""The Transformer with its halting module."""

from anydepth.config.schema import Config
from anydepth.exits.halting import Halting, make_halting
from anydepth.model.transformer import Transformer


class AdaptiveTransformer(Transformer):
    """A Transformer and the module that chooses its exits, if it has one; their weights are trained
    and stored together."""

    def __init__(self, config: Config, *, source_vocab: int, target_vocab: int, is_joint: bool) -> None:
        super().__init__(config.model, source_vocab=source_vocab, target_vocab=target_vocab, is_joint=is_joint)
        self.halting: Halting | None = make_halting(config)
