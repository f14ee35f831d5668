"""Random cases: a model, a policy and settings, what C++ is given, and what it must find."""

import json
import random
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

BEAMS = (1, 1, 2, 3, 5, 12, 40)


class Recorded:
    """Stands for the compiled module and keeps what it is given."""

    def __init__(self) -> None:
        self.engine: dict[str, Any] = {}
        self.call: tuple[Any, ...] = ()
        self.Shape = self.Policy = self.Settings = self.Batching = dict

    class Rule:
        planned, sequence, multinomial, geometric = "planned", "sequence", "multinomial", "geometric"
        confidence, margin, similarity, shortlist = "confidence", "margin", "similarity", "shortlist"

    class Activation:
        relu, gelu, swish = "relu", "gelu", "swish"

    class Counts:
        decoder_flops = 0
        seconds: ClassVar[dict[str, float]] = {}

    def Engine(self, **given: Any) -> "Recorded":  # noqa: N802
        self.engine = given
        return self

    def selection(self, **given: Any) -> dict[str, Any]:
        """A selection of words as JSON can hold it."""
        return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in given.items()}

    def search(self, *given: Any) -> tuple[list[list[Any]], Any]:
        self.call = given
        return [[] for _ in given[0]], self.Counts


def write_case(path: Path, randomness: random.Random) -> None:
    """A case as JSON and its tensors beside it: what C++ is given in one or several calls, and what
    it must find."""
    import torch

    from anydepth.inference.engines.native import native_engine as native

    torch.set_num_threads(1)
    model = random_model(randomness)
    is_int8, threads, is_deferred = randomness.random() < 0.4, randomness.randint(1, 4), randomness.random() < 0.7
    recorded = Recorded()
    compiled, native._native = native._native, recorded  # type: ignore[assignment]
    try:
        engine = native.NativeEngine(model, int8=is_int8, threads=threads, is_deferred=is_deferred)
        calls = [random_call(engine, recorded, randomness) for _ in range(randomness.choice([1, 2, 3]))]
    finally:
        native._native = compiled
    for call in calls:
        asked = call.pop("asked")
        call["expected"] = None if is_int8 else expected_hypotheses(model, *asked)
        model.float()
    tensors = recorded.engine.pop("tensors")
    np.savez(path.with_suffix(".npz"), **tensors)
    path.with_suffix(".json").write_text(json.dumps({"engine": recorded.engine, "calls": calls}), encoding="utf-8")


def random_call(engine: Any, recorded: Recorded, randomness: random.Random) -> dict[str, Any]:
    """What C++ is given for random sentences, and what that is for the plain step."""
    from dataclasses import replace

    from anydepth.exits.parsing import parse_policy

    model = engine.model
    policy = random_policy(model, randomness)
    settings = random_settings(model, randomness)
    if randomness.random() < 0.5 and settings.has_room(selection := random_selection(model, randomness)):
        settings = replace(settings, words=selection)
    longest = min(randomness.choice([1, 4, 20, 70]), model.config.max_length)
    words = model.source_embedding.num_embeddings
    texts = [
        randomness.choices(range(4, words), k=randomness.randint(0, longest))
        for _ in range(randomness.choice([1, 2, 5, 13]))
    ]
    texts += randomness.sample(texts, randomness.randint(0, len(texts)))  # some twice
    chosen = parse_policy(policy, model) if isinstance(policy, str) else policy(len(texts))
    limits = {"batch_tokens": randomness.choice([1, 300, 10**9]), "batch_sentences": randomness.choice([None, 1, 3])}
    engine.search(texts, chosen, replace(settings, **limits))
    told = f"{chosen.name}, {settings!r}"
    return {"given": recorded.call, "told": told, "asked": (texts, chosen, settings)}


def expected_hypotheses(model: Any, texts: list[list[int]], policy: Any, settings: Any) -> list[list[list[Any]]] | None:
    """What the plain step finds, or None where rounding alone decides; leaves the model in
    float64."""
    from anydepth.search.beam import search
    from anydepth.text.batches import make_source

    plain = search(model, *make_source(texts), policy, settings)
    exact = search(model.double(), *make_source(texts), policy, settings)
    said, meant = ([[(each.tokens, each.exits) for each in ranked] for ranked in found] for found in (plain, exact))
    return [[[each.tokens, each.exits, each.score] for each in ranked] for ranked in plain] if said == meant else None


def random_model(randomness: random.Random) -> Any:
    """A model of odd sizes whose every parameter is random, sure of its words and exits often
    enough."""
    import torch

    from anydepth.config.loading import make_config
    from anydepth.exits.adaptive import AdaptiveTransformer

    heads, is_tied = randomness.choice([1, 2, 3, 4]), randomness.random() < 0.3
    # A state of very few numbers is almost all sign after its norm, so that hypotheses tie in
    # earnest.
    encoder, decoder = (max(8 // heads * heads, heads * randomness.choice([2, 4, 6, 10, 16, 18])) for _ in range(2))
    encoder = decoder if is_tied else encoder
    source, target = (randomness.choice([6, 7, 19, 64, 130]) for _ in range(2))
    halting = randomness.choice(["none", "sequence", "multinomial", "geometric"])
    units = randomness.choice([0, 1, 7, 40]) if halting == "geometric" else 0
    blocks = randomness.choice([1, 2, 3, 4, 7])
    config = make_config(
        {
            "model": {
                "blocks": blocks,
                "heads": heads,
                "exit_adapter": randomness.choice([0, 0, 1, 5, 33]) if blocks > 1 else 0,
                "activation": randomness.choice(["relu", "gelu", "swish"]),
                "attended_states": randomness.choice(["below", "first", "shared"]),
                "scale_embeddings": randomness.random() < 0.5,
                "output_bias": randomness.random() < 0.5,
                "dropout": 0.0,
                "max_length": randomness.choice([3, 40, 90]),
                "classifiers": "tied" if is_tied else randomness.choice(["untied", "shared"]),
                "encoder": {
                    "blocks": randomness.choice([1, 2]),
                    "dim": encoder,
                    "ffn_dim": randomness.choice([1, 5, 33]),
                    "heads": randomness.choice([None, 1]),
                },
                "decoder": {"dim": decoder, "ffn_dim": randomness.choice([1, 20, 50])},
            },
            "exits": {"halting": halting, "halting_units": units},
        },
        [],
    )
    torch.manual_seed(randomness.randrange(10**6))
    model = AdaptiveTransformer(
        config, source_vocab=target if is_tied else source, target_vocab=target, is_joint=is_tied
    )
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
        for classifier in {model.classifier(n) for n in model.config.classifier_exits}:
            classifier *= randomness.choice([1, 3, 8])
        for parameter in model.exit_adapters.parameters():  # a fresh one adds nothing
            parameter.add_(torch.randn_like(parameter), alpha=0.6)
        if model.output_bias is not None:
            ban_words(model.output_bias, randomness)
    return model.eval()


def ban_words(bias: Any, randomness: random.Random) -> None:
    """Sometimes gives up to three words a bias with which they must never be produced, where the
    widest beam finds enough others."""
    from anydepth.text.tokenizer import UNK

    words = range(UNK + 1, len(bias))
    if len(words) > max(BEAMS) + 3:
        for word in randomness.sample(words, randomness.choice([0, 1, 3])):
            bias[word] = randomness.choice([-np.inf, -1e9])


def random_policy(model: Any, randomness: random.Random) -> Any:
    """The text of a policy that the model has, or what makes forced exits for so many sentences."""
    import torch

    from anydepth.exits.halting import GeometricHalting
    from anydepth.exits.policies import ForcedExits

    kinds = ["fixed", "uniform", "confidence", "margin", "similarity", "shortlist", "forced"]
    kind = randomness.choice(kinds)
    own = type(model.halting).__name__.removesuffix("Halting").lower()
    if model.halting is not None and randomness.random() < 0.4:
        kind = own
    values = [
        randomness.choice([0, 1, *(round(randomness.random() ** 2, 3) for _ in range(6))])
        for _ in range(model.blocks - 1)
    ]
    thresholds = ",".join(map(str, values)) or "0.5"
    match kind:
        case "fixed":
            return f"fixed:{randomness.randint(1, model.blocks)}"
        case "uniform":
            return f"uniform:{randomness.randrange(1000)}"
        case "sequence" | "multinomial":
            return kind
        case "shortlist":
            return f"shortlist:{randomness.choice([1, 2, 5, 64, 500])}:{thresholds}"
        case "forced":
            watched = (
                model.halting if isinstance(model.halting, GeometricHalting) and randomness.random() < 0.5 else None
            )
            generator = torch.Generator().manual_seed(randomness.randrange(10**6))
            width = randomness.randint(1, 9)
            return lambda count: ForcedExits(
                torch.randint(1, model.blocks + 1, (count, width), generator=generator), watched, model.blocks
            )
    return f"{kind}:{thresholds}"


def random_settings(model: Any, randomness: random.Random) -> Any:
    """A beam, perhaps wider than there are words, and limits, perhaps of one token."""
    from anydepth.search.decoding import SearchSettings

    beam = randomness.choice(BEAMS)
    length = {"length_ratio": randomness.choice([0.0, 0.5, 1.5]), "length_offset": randomness.choice([1, 2, 5, 15])}
    exact = {"exact_length": randomness.choice([1, 4, 20])} if randomness.random() < 0.15 else {}
    best = randomness.choice([1, beam])
    return SearchSettings(beam=beam, best=best, length_penalty=randomness.choice([0.0, 0.6, 1.0]), **length, **exact)


def random_selection(model: Any, randomness: random.Random) -> Any:
    """A selection of words by a table or by learned weights: few words, or almost all of them."""
    import torch

    from anydepth.text.tokenizer import EOS
    from anydepth.vocabulary.learned_selection import LearnedSelection
    from anydepth.vocabulary.lexical_table import LexicalTable, StandingWords, TableSelection

    generator = np.random.default_rng(randomness.randrange(10**6))
    source, vocab = model.source_embedding.num_embeddings, model.target_embedding.num_embeddings
    others = generator.permutation([word for word in range(vocab) if word != EOS])[: generator.integers(vocab)]
    copies = generator.integers(-1, vocab, source)
    spelling, spelled = (generator.permutation(size)[: generator.integers(4)] for size in (vocab, source))
    standing = StandingWords(np.sort(np.append(others, EOS)), copies, vocab, spelling, spelled)
    if randomness.random() < 0.5:
        counts = generator.integers(0, 5, source)
        starts = np.concatenate([[0], counts.cumsum()])
        table = LexicalTable(standing, starts, generator.integers(0, vocab, counts.sum()))
        return TableSelection(table, randomness.choice([1, 2, 5]))
    weight, bias = torch.randn(vocab, model.config.encoder.dim), torch.randn(vocab)
    return LearnedSelection(standing, weight, bias, randomness.choice([0.1, 0.5, 0.9]))
