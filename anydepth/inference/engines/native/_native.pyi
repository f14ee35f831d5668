from collections.abc import Mapping, Sequence

import numpy as np

def instruction_sets() -> list[str]: ...
def linear_seconds(m: int, k: int, n: int, is_int8: bool, repeats: int = ..., instructions: str = ...) -> float: ...

class Activation:
    relu: Activation
    gelu: Activation
    swish: Activation
    __members__: Mapping[str, Activation]

class Shape:
    def __init__(
        self,
        *,
        encoder_heads: int,
        decoder_heads: int,
        encoder_dim: int,
        encoder_ffn: int,
        decoder_dim: int,
        decoder_ffn: int,
        encoder_blocks: int,
        blocks: int,
        target_vocab: int,
        activation: Activation,
        has_scaled_embeddings: bool,
        has_output_bias: bool,
        adapter: int,
        attends_first: bool,
        key_blocks: int,
    ) -> None: ...

class Rule:
    planned: Rule
    sequence: Rule
    multinomial: Rule
    geometric: Rule
    confidence: Rule
    margin: Rule
    similarity: Rule
    shortlist: Rule
    __members__: Mapping[str, Rule]

class Policy:
    def __init__(
        self,
        *,
        rule: Rule,
        thresholds: Sequence[float] = ...,
        shortlist: int = ...,
        plans: Sequence[Sequence[int]] = ...,
        is_halting_watched: bool = ...,
    ) -> None: ...

class Settings:
    def __init__(
        self,
        *,
        beam: int,
        best: int,
        length_penalty: float,
        early_stopping: bool,
        banned: Sequence[int],
        eos: int,
        bos: int,
    ) -> None: ...

class Batching:
    def __init__(self, *, sentences: int, tokens: int, is_deferred: bool = ..., threads: int = ...) -> None: ...

class Found:
    tokens: list[int]
    exits: list[int]
    token_scores: list[float]
    score: float
    has_finished: bool
    words: int

class Counts:
    encoder_flops: int
    decoder_flops: int
    copied_pairs: int
    rows: int
    steps: int
    nodes: int
    seconds: dict[str, float]

class Selection: ...

class OpenSearch:
    def submit(
        self,
        number: int,
        owner: int,
        source: Sequence[int],
        limit: int,
        policy: Policy,
        settings: Settings,
        selection: Selection | None = ...,
    ) -> None: ...
    def cancel(self, number: int) -> bool: ...
    def take(self, timeout_ms: int) -> list[tuple[int, list[Found]]] | None: ...
    def close(self, drain: bool) -> None: ...
    def join(self) -> Counts: ...

class Queue:
    def __init__(self, workers: int = ...) -> None: ...
    def submit(self, number: int, owner: int) -> None: ...
    def cancel(self, number: int) -> bool: ...
    def close(self) -> None: ...
    def take(self, places: int, most: int) -> list[int]: ...

class Engine:
    instructions: str
    def __init__(
        self,
        *,
        shape: Shape,
        tensors: Mapping[str, np.ndarray],
        classifiers: Sequence[str],
        halting: str,
        halting_units: int,
        is_int8: bool,
        instructions: str = ...,
    ) -> None: ...
    def selection(
        self,
        *,
        always: Sequence[int],
        copies: Sequence[int],
        bytes: Sequence[int] = ...,
        is_spelled: Sequence[bool] = ...,
        starts: Sequence[int] = ...,
        words: Sequence[int] = ...,
        weight: np.ndarray | None = ...,
        bias: np.ndarray | None = ...,
        least_odds: float = ...,
    ) -> Selection: ...
    def search(
        self,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        policy: Policy,
        settings: Settings,
        batching: Batching,
        selection: Selection | None = ...,
    ) -> tuple[list[list[Found]], Counts]: ...
    def open(self, batching: Batching) -> OpenSearch: ...
