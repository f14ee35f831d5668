"""The model with its encoder, decoder blocks and classifiers in ONNX Runtime; policies and search
do not notice."""

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.inference.engines.onnx.onnx_cache import DeferredCache
from anydepth.inference.engines.onnx.sessions import Array, Program, open_programs
from anydepth.inference.export.onnx_folder import checked_export
from anydepth.model.cache import DecoderCache
from anydepth.model.transformer import Revise
from anydepth.runs.models import load_model
from anydepth.runs.run import Run


class OnnxTransformer(AdaptiveTransformer):
    """A model that translates with its graphs in ONNX Runtime, by the `programs` that
    are named in onnx_folder.py.

    It shares the weights and the halting module of the `model` that the graphs were made of, for
    whatever else is asked of a model.
    """

    def __init__(self, model: AdaptiveTransformer, programs: Mapping[str, Program], *, name: str) -> None:
        nn.Module.__init__(self)
        self.config, self.halting, self.output_bias = model.config, model.halting, model.output_bias
        for part, module in model.named_children():
            self.add_module(part, module)
        self.programs, self.name = programs, name
        self.train(model.training)

    def encode(
        self, source: Int[Tensor, "batch source"], source_mask: Bool[Tensor, "batch source"]
    ) -> Float[Tensor, "batch source encoder_dim"]:
        """The encoder's output s, called memory."""
        return torch.from_numpy(self.programs["encoder"](source=source.numpy(), source_mask=source_mask.numpy())[0])

    def adapted_states(self, n: int, hidden: Float[Tensor, "row dim"]) -> Float[Tensor, "row dim"]:
        """a_n(h), where exit n has an adapter."""
        return torch.from_numpy(self.programs[f"adapter{n}"](states=hidden.numpy())[0])

    def classifier_logits(self, n: int, scored: Float[Tensor, "row dim"]) -> Float[Tensor, "row vocab"]:
        """The scores of all words by the classifier of exit n, which sees `scored`."""
        number = n if self.config.classifiers == "untied" else self.config.classifier_exits[-1]
        return torch.from_numpy(self.programs[f"classifier{number}"](states=scored.numpy())[0])

    def start_cache(
        self, memory: Float[Tensor, "sentence source encoder_dim"], source_mask: Bool[Tensor, "sentence source"]
    ) -> DecoderCache:
        """A cache that puts off what may never be needed."""
        sentences, attends_first = torch.arange(len(memory)), self.config.attends_first
        return DeferredCache(memory, source_mask, sentences, attends_first=attends_first)

    def step(
        self, tokens: Int[Tensor, " row"], cache: DecoderCache, planned: Int[Tensor, " row"], revise: Revise
    ) -> tuple[Float[Tensor, "row dim"], Int[Tensor, " row"]]:
        """One more position of every row, as the plain step. Only running rows enter a block, and
        above the last of them nothing runs."""
        assert isinstance(cache, DeferredCache), "start_cache makes the cache of this model"
        states: Array = self.programs["embedding"](tokens=tokens.numpy(), position=cache.position)[0]
        cache.begin(states)
        exits: Array = revise(0, torch.from_numpy(states), planned.clone()).numpy()
        running = cache.rows
        for n in range(1, self.blocks + 1):
            states = self._run_rows(n, states, cache, running)
            cache.keep_states(n, running, states)
            left: Array = revise(n, torch.from_numpy(states), torch.from_numpy(exits[running])).numpy()
            exits[running] = left
            goes_on = left > n
            if not goes_on.any():
                break
            running, states = running[goes_on], states[goes_on]
        return torch.from_numpy(cache.end()), torch.from_numpy(exits)

    def _run_rows(
        self, n: int, states: Float[Array, "chosen dim"], cache: DeferredCache, rows: Int[Array, " chosen"]
    ) -> Float[Array, "chosen dim"]:
        """The states of some rows after block n."""
        key_block = self.config.keys_of(n)
        if key_block == n:
            cache.catch_up(n, rows, states, self.programs[f"keys_values{n}"])
        keys, values = cache.past_of_rows(key_block, rows)
        sentences, grid, place = cache.side_by_side(rows)
        source_keys, source_values = cache.source_of_sentences(
            key_block, sentences, self.programs[f"source{key_block}"]
        )
        return self.programs[f"block{n}"](
            states=states,
            keys=keys,
            values=values,
            mask=cache.past_mask,
            source_keys=source_keys,
            source_values=source_values,
            source_mask=cache.masks if len(sentences) == len(cache.masks) else cache.masks[sentences],
            grid=grid,
            place=place,
        )[0]


def load_onnx(run: Run, *, int8: bool, threads: int | None = None) -> OnnxTransformer:
    """The trained model on its ONNX export, which must be that of its present weights; `threads`
    are torch's number if None."""
    programs = open_programs(checked_export(run, int8=int8), threads=threads)
    return OnnxTransformer(load_model(run), programs, name="onnx-int8" if int8 else "onnx")
