import pytest
import torch
from tiny import tiny_model, tiny_pairs
from torch.nn import functional as F

from anydepth.text.batches import make_batch
from anydepth.training import validation
from anydepth.training.validation import validation_losses

BIASED = "model.output_bias=true"


@pytest.mark.parametrize("change", ["model.classifiers=untied", "model.classifiers=tied", "model.exits=last", BIASED])
def test_validation_is_the_mean_over_tokens_of_sentences_taken_one_by_one(
    monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    monkeypatch.setattr(validation, "ROWS", 5)
    model, pairs = tiny_model(change), tiny_pairs(9)
    bias = 0.0 if model.output_bias is None else model.output_bias
    totals, tokens = torch.zeros(len(model.config.classifier_exits)), 0
    with torch.no_grad():
        for number in range(len(pairs)):
            batch = make_batch(pairs, [number])
            states = model.decode(batch.target_inputs, model.encode(batch.source, batch.source_mask), batch.source_mask)
            for place, n in enumerate(model.config.classifier_exits):
                totals[place] += F.cross_entropy(
                    states[n - 1, 0] @ model.classifier(n).t() + bias, batch.targets[0], reduction="sum"
                )
            tokens += batch.tokens
    for batch_tokens in (1, 20, 1000):
        assert validation_losses(model, pairs, batch_tokens=batch_tokens) == pytest.approx(
            (totals / tokens).tolist(), rel=1e-5
        )
