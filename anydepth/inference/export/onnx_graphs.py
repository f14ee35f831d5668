"""The model as ONNX graphs, written node by node: standard operators only, so that any runtime can
run them.

Tracing would need another package and many seconds, and would fix what here stays a matter of
names: which axes may grow.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from anydepth.config.model_settings import Activation, ModelConfig
from anydepth.exits.adaptive import AdaptiveTransformer
from anydepth.exits.halting import GeometricHalting, Halting, MultinomialHalting, SequenceHalting
from anydepth.model.attention import Attention
from anydepth.model.blocks import DecoderBlock, EncoderBlock, FeedForward
from anydepth.model.exit_adapter import ExitAdapter
from anydepth.model.transformer import Transformer, position_rates

IR_VERSION = 8  # the oldest that knows the operators used here
INT8_STEPS, INT8_MIDDLE = 127, 128
SMALLEST = 1e-20  # instead of 0 where nothing but zeros is to be scaled
FLOAT, INTEGER, BOOLEAN = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
DOUBLE = TensorProto.DOUBLE

Axes = Sequence[str | int]


class Graph:
    """A graph in the making: every method adds nodes and returns the name of their result. With
    `int8` weights are."""

    def __init__(self, name: str, *, int8: bool) -> None:
        self.name, self.int8 = name, int8
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, kind: int, axes: Axes) -> str:
        """An input; axes with names may have any length."""
        self.inputs.append(helper.make_tensor_value_info(name, kind, list(axes)))
        return name

    def output(self, name: str, value: str, axes: Axes) -> None:
        """Makes `value`, of floating point, an output."""
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, FLOAT, list(axes)))

    def constant(self, value: np.ndarray | float | Sequence[int]) -> str:
        """A constant; a list holds integers, a single number is of floating point."""
        array = (
            value
            if isinstance(value, np.ndarray)
            else np.array(value, np.float32 if isinstance(value, float) else np.int64)
        )
        name = f"constant{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(array, name)
        return name

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The first result of an operator."""
        return self.add_many(operator, *inputs, results=1, **attributes)[0]

    def add_many(self, operator: str, *inputs: str, results: int, **attributes: Any) -> list[str]:
        """The results of an operator."""
        names = [f"{operator.lower()}{len(self.nodes)}_{number}" for number in range(results)]
        self.nodes.append(helper.make_node(operator, inputs, names, **attributes))
        return names

    def matrix_product(self, states: str, matrix: np.ndarray) -> str:
        """`states` times a matrix (inputs, outputs) of weights.

        In int8 each output has its own scale, and so has each row of `states`, found on the way:
        one scale for all rows, as in DynamicQuantizeLinear, is faster, but then a sentence's
        translation depends on the sentences beside it.
        """
        if not self.int8:
            return self.add("MatMul", states, self.constant(np.ascontiguousarray(matrix)))
        largest = self.add("Max", self.add("ReduceMax", self.add("Abs", states), axes=[-1]), self.constant(SMALLEST))
        scale, middle = self.constant(1 / INT8_STEPS), self.constant(np.array(INT8_MIDDLE, np.uint8))
        small = self.add("QuantizeLinear", self.add("Div", states, largest), scale, middle)
        scales = np.maximum(np.abs(matrix).max(axis=0), SMALLEST) / INT8_STEPS  # (outputs)
        rounded = self.constant(np.ascontiguousarray(np.round(matrix / scales).astype(np.int8)))
        weights = [rounded, self.constant(scales.astype(np.float32)), self.constant(np.zeros(len(scales), np.int8))]
        # In this form ONNX Runtime finds a product of integers.
        product = self.add(
            "MatMul", self.add("DequantizeLinear", small, scale, middle), self.add("DequantizeLinear", *weights, axis=1)
        )
        return self.add("Mul", product, largest)

    def linear(self, states: str, *layers: tuple[np.ndarray, np.ndarray]) -> str:
        """What linear layers (weight, bias) make of `states`, side by side."""
        weight, bias = (np.concatenate(parts) for parts in zip(*layers, strict=True))
        return self.add("Add", self.matrix_product(states, weight.T), self.constant(bias))

    def feed_forward(self, states: str, network: FeedForward) -> str:
        """The position-wise network."""
        inner = self.linear(states, parameters(network.inner))
        return self.linear(self.activate(inner, network.activation), parameters(network.outer))

    def activate(self, states: str, activation: Activation) -> str:
        """The activation of a feed-forward network."""
        match activation:
            case "relu":
                return self.add("Relu", states)
            case "swish":
                return self.add("Mul", states, self.add("Sigmoid", states))
            case "gelu":  # x (1 + erf(x / sqrt(2))) / 2, as there is no operator for it in this opset
                erf = self.add("Erf", self.add("Div", states, self.constant(2**0.5)))
                twice = self.add("Mul", states, self.add("Add", erf, self.constant(1.0)))
                return self.add("Mul", twice, self.constant(0.5))

    def add_and_normalise(self, states: str, change: str, norm: nn.LayerNorm) -> str:
        """The end of a sub-block."""
        weight, bias = parameters(norm)
        total = self.add("Add", states, change)
        return self.add(
            "LayerNormalization", total, self.constant(weight), self.constant(bias), axis=-1, epsilon=norm.eps
        )

    def attend(self, queries: str, keys: str, values: str, *, mask: str) -> str:
        """What queries (..., head, query, head_dim), already scaled, gather from `values`; `mask`
        is True where looking is allowed."""
        scores = self.add("MatMul", queries, self.add("Transpose", keys, perm=[0, 1, 3, 2]))
        # Adding to all scores is faster than choosing among them, so the choice is made of the
        # smaller mask.
        penalty = self.add("Where", mask, self.constant(0.0), self.constant(-np.inf))
        weights = self.add("Softmax", self.add("Add", scores, penalty), axis=-1)
        return self.add("MatMul", weights, values)

    def split_heads(self, states: str, heads: int, head_dim: int) -> str:
        """(row, time, dim) as (row, head, time, head_dim)."""
        return self.add(
            "Transpose", self.add("Reshape", states, self.constant([0, 0, heads, head_dim])), perm=[0, 2, 1, 3]
        )

    def merge_heads(self, states: str, dim: int) -> str:
        """(row, head, time, head_dim) as (row, time, dim)."""
        return self.add("Reshape", self.add("Transpose", states, perm=[0, 2, 1, 3]), self.constant([0, 0, dim]))

    def embed(self, embedding: nn.Embedding, tokens: str, positions: str, config: ModelConfig) -> str:
        """Embeddings, times sqrt(dim) where they are scaled, plus the sinusoids of `positions`, a
        column."""
        scale = embedding.embedding_dim**0.5 if config.scale_embeddings else 1.0
        table = array_of(embedding.weight) * np.float32(scale)
        rates = position_rates(embedding.embedding_dim, config.positions).numpy()
        is_double = rates.dtype == np.float64
        angles = self.add("Mul", self.add("Cast", positions, to=DOUBLE if is_double else FLOAT), self.constant(rates))
        sinusoids = self.add("Concat", self.add("Sin", angles), self.add("Cos", angles), axis=-1)
        if is_double:
            sinusoids = self.add("Cast", sinusoids, to=FLOAT)
        return self.add("Add", self.add("Gather", self.constant(table), tokens), sinusoids)

    def content(self, *, opset: int) -> bytes:
        """The finished and checked graph as the content of a file."""
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, list(self.constants.values()))
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=IR_VERSION, producer_name="anydepth"
        )
        onnx.checker.check_model(model)
        content: bytes = model.SerializeToString()
        return content


def make_graphs(model: AdaptiveTransformer, *, opset: int, int8: bool) -> Iterator[tuple[str, bytes]]:
    """The graphs of `model`, one after the other, with their names; `DESCRIPTION` in onnx_folder.py
    tells what they take and give."""
    yield "encoder", encoder_graph(model, int8=int8).content(opset=opset)
    yield "embedding", embedding_graph(model).content(opset=opset)
    for n, module in enumerate(model.decoder, 1):
        block = cast(DecoderBlock, module)
        if n <= model.config.key_blocks:
            yield f"keys_values{n}", keys_values_graph(block.self_attention, int8=int8).content(opset=opset)
            yield f"source{n}", source_graph(block.source_attention, int8=int8).content(opset=opset)
        yield f"block{n}", block_graph(block, int8=int8).content(opset=opset)
    exits = model.config.classifier_exits
    for n in exits if model.config.classifiers == "untied" else exits[-1:]:
        graph = classifier_graph(model.classifier(n), model.output_bias, int8=int8)
        yield f"classifier{n}", graph.content(opset=opset)
    for n, module in enumerate(model.exit_adapters, 1):
        yield f"adapter{n}", adapter_graph(cast(ExitAdapter, module)).content(opset=opset)
    if model.halting is not None:
        yield "halting", halting_graph(model.halting).content(opset=opset)


def encoder_graph(model: Transformer, *, int8: bool) -> Graph:
    """From source tokens to the memory."""
    graph, dim = Graph("encoder", int8=int8), model.config.encoder.dim
    source = graph.input("source", INTEGER, ["sentence", "source"])
    source_mask = graph.input("source_mask", BOOLEAN, ["sentence", "source"])
    mask = graph.add("Unsqueeze", source_mask, graph.constant([1, 2]))  # (sentence, 1, 1, source)
    length = graph.add("Squeeze", graph.add("Shape", source, start=1))
    positions = graph.add("Range", graph.constant(np.array(0)), length, graph.constant(np.array(1)))
    positions = graph.add("Unsqueeze", positions, graph.constant([1]))
    states = graph.embed(model.source_embedding, source, positions, model.config)
    for module in model.encoder:
        states = encoder_block(graph, states, mask, cast(EncoderBlock, module))
    graph.output("memory", states, ["sentence", "source", dim])
    return graph


def encoder_block(graph: Graph, states: str, mask: str, block: EncoderBlock) -> str:
    """The states after an encoder block."""
    attention = block.attention
    projected = graph.linear(states, scaled_query(attention), parameters(attention.key), parameters(attention.value))
    parts = graph.add_many("Split", projected, results=3, axis=-1)
    gathered = graph.attend(*(graph.split_heads(part, *head_sizes(attention)) for part in parts), mask=mask)
    merged = graph.merge_heads(gathered, attention.query.out_features)
    states = graph.add_and_normalise(states, graph.linear(merged, parameters(attention.output)), block.attention_norm)
    return graph.add_and_normalise(states, graph.feed_forward(states, block.feed_forward), block.feed_forward_norm)


def embedding_graph(model: Transformer) -> Graph:
    """From target tokens, all at one position, to the states that enter the first block."""
    graph = Graph("embedding", int8=False)
    tokens, position = graph.input("tokens", INTEGER, ["row"]), graph.input("position", INTEGER, [1])
    states = graph.embed(model.target_embedding, tokens, position, model.config)
    graph.output("states", states, ["row", model.config.decoder.dim])
    return graph


def keys_values_graph(attention: Attention, *, int8: bool) -> Graph:
    """From states that enter a block, whatever their row and position, to their keys and values."""
    graph = Graph("keys_values", int8=int8)
    heads, head_dim = head_sizes(attention)
    states = graph.input("states", FLOAT, ["place", attention.key.in_features])
    both = graph.linear(states, parameters(attention.key), parameters(attention.value))
    for name, part in zip(("keys", "values"), graph.add_many("Split", both, results=2, axis=-1), strict=True):
        graph.output(name, graph.add("Reshape", part, graph.constant([0, heads, head_dim])), ["place", heads, head_dim])
    return graph


def source_graph(attention: Attention, *, int8: bool) -> Graph:
    """From the memory to a block's source keys and values."""
    graph = Graph("source", int8=int8)
    heads, head_dim = head_sizes(attention)
    memory = graph.input("memory", FLOAT, ["sentence", "source", attention.key.in_features])
    both = graph.linear(memory, parameters(attention.key), parameters(attention.value))
    for name, part in zip(("keys", "values"), graph.add_many("Split", both, results=2, axis=-1), strict=True):
        graph.output(name, graph.split_heads(part, heads, head_dim), ["sentence", heads, "source", head_dim])
    return graph


def block_graph(block: DecoderBlock, *, int8: bool) -> Graph:
    """A decoder block at one position: rows may belong to the same sentence, whose source they then
    look at side by side."""
    graph, dim = Graph("block", int8=int8), block.self_attention.query.out_features
    heads, head_dim = head_sizes(block.self_attention)
    states = graph.input("states", FLOAT, ["row", dim])
    keys, values = (graph.input(name, FLOAT, ["row", heads, "time", head_dim]) for name in ("keys", "values"))
    mask = graph.input("mask", BOOLEAN, ["time"])
    source = [
        graph.input(name, FLOAT, ["sentence", heads, "source", head_dim]) for name in ("source_keys", "source_values")
    ]
    source_mask = graph.input("source_mask", BOOLEAN, ["sentence", "source"])
    grid, place = graph.input("grid", INTEGER, ["sentence", "slot"]), graph.input("place", INTEGER, ["row"])

    queries = graph.linear(states, scaled_query(block.self_attention))
    gathered = graph.attend(
        graph.add("Reshape", queries, graph.constant([0, heads, 1, head_dim])), keys, values, mask=mask
    )
    merged = graph.add("Reshape", gathered, graph.constant([0, dim]))
    states = graph.add_and_normalise(
        states, graph.linear(merged, parameters(block.self_attention.output)), block.self_attention_norm
    )

    # (sentence, slot, dim)
    queries = graph.add("Gather", graph.linear(states, scaled_query(block.source_attention)), grid)
    wide_mask = graph.add("Unsqueeze", source_mask, graph.constant([1, 2]))  # (sentence, 1, 1, source)
    gathered = graph.attend(graph.split_heads(queries, heads, head_dim), *source, mask=wide_mask)
    merged = graph.add(
        "Gather", graph.add("Reshape", graph.merge_heads(gathered, dim), graph.constant([-1, dim])), place
    )
    states = graph.add_and_normalise(
        states, graph.linear(merged, parameters(block.source_attention.output)), block.source_attention_norm
    )

    states = graph.add_and_normalise(states, graph.feed_forward(states, block.feed_forward), block.feed_forward_norm)
    graph.output("new_states", states, ["row", dim])
    return graph


def classifier_graph(classifier: Tensor, bias: Tensor | None, *, int8: bool) -> Graph:
    """From states that leave to the scores of all words."""
    graph, matrix = Graph("classifier", int8=int8), array_of(classifier).T
    states = graph.input("states", FLOAT, ["row", matrix.shape[0]])
    logits = graph.matrix_product(states, matrix)
    if bias is not None:
        logits = graph.add("Add", logits, graph.constant(array_of(bias)))
    graph.output("logits", logits, ["row", matrix.shape[1]])
    return graph


def adapter_graph(adapter: ExitAdapter) -> Graph:
    """From states that leave at an exit below the last, or are looked at there, to what its classifier
    sees. In float32 always: it is cheap beside the classifier."""
    graph, dim = Graph("adapter", int8=False), adapter.down.in_features
    states = graph.input("states", FLOAT, ["row", dim])
    inner = graph.add("Relu", graph.linear(states, parameters(adapter.down)))
    scored = graph.add_and_normalise(states, graph.linear(inner, parameters(adapter.up)), adapter.norm)
    graph.output("scored_states", scored, ["row", dim])
    return graph


def halting_graph(halting: Halting) -> Graph:
    """From what a halting module looks at to what exits are chosen by.

    In float32 always: it costs next to nothing, and a probability near its threshold leaves no room
    for rounding.
    """
    graph = Graph("halting", int8=False)
    match halting:
        case GeometricHalting():
            geometric_scores(graph, halting)
        case MultinomialHalting():
            states = graph.input("states", FLOAT, ["row", halting.token_scores.in_features])
            exit_scores(graph, states, halting.token_scores, axis="row")
        case SequenceHalting():
            dim = halting.sentence_scores.in_features
            memory = graph.input("memory", FLOAT, ["sentence", "source", dim])
            source_mask = graph.input("source_mask", BOOLEAN, ["sentence", "source"])
            exit_scores(graph, mean_of_real(graph, memory, source_mask), halting.sentence_scores, axis="sentence")
    return graph


def geometric_scores(graph: Graph, halting: GeometricHalting) -> None:
    """The probability of stopping here (Eq. 12)."""
    first = halting.features or halting.stop_score
    seen = graph.input("states", FLOAT, ["row", first.in_features])
    if halting.features is not None:
        seen = graph.add("Relu", graph.linear(seen, parameters(halting.features)))
    logits = graph.add("Squeeze", graph.linear(seen, parameters(halting.stop_score)), graph.constant([1]))
    graph.output("stop_probability", graph.add("Sigmoid", logits), ["row"])


def exit_scores(graph: Graph, seen: str, layer: nn.Linear, *, axis: str) -> None:
    """The scores of all exits (Eqs. 8 and 11); a softmax would not change which is highest."""
    graph.output("exit_scores", graph.linear(seen, parameters(layer)), [axis, layer.out_features])


def mean_of_real(graph: Graph, memory: str, source_mask: str) -> str:
    """The mean of the memory over real tokens."""
    # (sentence, source, 1)
    real = graph.add("Unsqueeze", graph.add("Cast", source_mask, to=FLOAT), graph.constant([2]))
    total, count = (
        graph.add("ReduceSum", each, graph.constant([1]), keepdims=0) for each in (graph.add("Mul", memory, real), real)
    )
    return graph.add("Div", total, count)


def scaled_query(attention: Attention) -> tuple[np.ndarray, np.ndarray]:
    """The query layer with the attention's 1 / sqrt(head_dim) in its weights."""
    weight, bias = parameters(attention.query)
    scale = np.float32(head_sizes(attention)[1] ** -0.5)
    return weight * scale, bias * scale


def head_sizes(attention: Attention) -> tuple[int, int]:
    """The number of heads and the width of one."""
    return attention.heads, attention.query.out_features // attention.heads


def parameters(layer: nn.Linear | nn.LayerNorm) -> tuple[np.ndarray, np.ndarray]:
    """Weight and bias as arrays."""
    return array_of(layer.weight), array_of(layer.bias)


def array_of(parameter: Tensor) -> np.ndarray:
    """A parameter as an array that shares its memory."""
    array: np.ndarray = parameter.detach().numpy()
    return array
