"""The ceiling: exits at which the best word is full depth's, against a loop."""

from pathlib import Path

import pytest
import torch
from evaluation.translators import make_run, quiet, write_pairs
from tiny import BLOCKS

from anydepth.errors import UsageError
from anydepth.inference.translator import Translator
from anydepth.runs.run import Run
from anydepth.search.decoding import GREEDY
from anydepth.text.tokenizer import BOS, EOS
from anydepth.tuning.ceiling import agreeing_exits, run_ceiling
from anydepth.tuning.decoded_points import DecodedPoints
from anydepth.tuning.valid_text import validation_text


@torch.no_grad()
def test_the_oracle_leaves_at_the_lowest_exit_whose_best_word_is_full_depths(trained: Run, held: str) -> None:
    translator = Translator.load(trained.folder)
    text = validation_text(trained, held, quiet)
    pairs = DecodedPoints(translator, trained, text, GREEDY, quiet).pairs(text.references)
    model = translator.model
    found = agreeing_exits(model, pairs)
    every = []
    for number, exits in enumerate(found):
        source = torch.tensor([[*pairs.source(number).tolist(), EOS]])
        inputs = torch.tensor([[BOS, *pairs.target(number).tolist()]])
        mask = torch.ones_like(source, dtype=torch.bool)
        states = model.decode(inputs, model.encode(source, mask), mask)[:, 0]
        for t, left in enumerate(exits.tolist()):
            best = [int(model.logits_at(n, states[n - 1, t : t + 1]).argmax()) for n in range(1, BLOCKS + 1)]
            assert left == 1 + best.index(best[-1])
            every.append(left)
        assert len(exits) == inputs.shape[1]
    assert len(set(every)) > 1, "exits differ, or this shows little"


def test_the_ceiling_is_not_deeper_than_full_depth_and_nothing_is_stored(trained: Run, held: str) -> None:
    before = {path: path.read_bytes() for path in trained.folder.rglob("*") if path.is_file()}
    found = run_ceiling(trained.folder, held, say=quiet)
    assert 1 <= found.oracle_average_exit < BLOCKS
    assert sum(found.exit_shares) == pytest.approx(1)
    assert 0 < found.oracle_flops_share < 1
    assert f"BLEU {found.oracle_bleu:.2f} at AE {found.oracle_average_exit:.2f}" in found.describe()
    assert {path: path.read_bytes() for path in trained.folder.rglob("*") if path.is_file()} == before


def test_a_model_with_one_exit_has_no_ceiling(tmp_path: Path) -> None:
    run = make_run(tmp_path, "model.exits=last")
    valid = write_pairs(tmp_path / "new", [("neu", "new")])
    with pytest.raises(UsageError, match=r"this model has one exit only, so there is no earlier one to leave at"):
        run_ceiling(run.folder, valid, say=quiet)
