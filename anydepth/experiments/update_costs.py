"""What an update of the parameters costs: as a number for the plan's estimate, and by the clock."""

from pathlib import Path
from statistics import median

import torch

from anydepth.config.loading import with_changes
from anydepth.config.schema import Config
from anydepth.experiments.definition import Study
from anydepth.experiments.records import FORMAT, CostRecord
from anydepth.experiments.variants import block_parameters, one_classifier
from anydepth.text.prepared import PreparedData
from anydepth.training.timing import update_seconds

ROUNDS = 9
UPDATES = 10  # of each model in a round


def update_cost(config: Config, vocabulary: int) -> int:
    """What an update costs, as a number of multiplications per token; only ratios of it mean
    anything."""
    model, (encoder_block, decoder_block) = config.model, block_parameters(config)
    paths = config.training.paths if config.training.mode == "mixed" else 1
    scored = paths if config.training.mode != "aligned" else len(model.classifier_exits)
    return (
        model.encoder.blocks * encoder_block
        + paths * model.blocks * decoder_block
        + scored * vocabulary * model.decoder.dim
    )


def training_cost(study: Study) -> CostRecord:
    """The seconds of an update of the aligned model over those of a model with one classifier
    (section 4.2)."""
    data, blocks = PreparedData.open(Path(study.data.folder)), study.config.model.blocks
    configs = [study.config, with_changes(study.config, one_classifier(blocks))]
    many, one = update_seconds(configs, data, rounds=ROUNDS, updates=UPDATES)
    ratios = sorted(first / second for first, second in zip(many, one, strict=True))
    return CostRecord(
        format=FORMAT,
        ratio=round(median(ratios), 4),
        low=round(ratios[0], 4),
        high=round(ratios[-1], 4),
        rounds=ROUNDS,
        updates_per_round=UPDATES,
        threads=torch.get_num_threads(),
        vocabulary=data.manifest.vocab_sizes[data.target_lang],
        blocks=blocks,
    )
