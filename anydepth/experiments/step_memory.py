"""How much memory a step of a study may need, as an estimate from its settings, so that a cluster
puts no more steps on a machine than it can hold.

The constants are chosen so that the estimate lies above what was measured: see the test of this
module, and docs/scale.md.
"""

from anydepth.config.loading import with_changes
from anydepth.config.schema import Config
from anydepth.experiments.race_steps import (
    AgreeOnWordsStep,
    ChooseWordsStep,
    HeatStep,
    HoldOutStep,
    JoinStep,
    TuneStep,
)
from anydepth.experiments.steps import (
    CompareStep,
    CostStep,
    DistilStep,
    MeasureStep,
    ScoreStep,
    StudyStep,
    TrainStep,
    WordsStep,
)
from anydepth.experiments.variants import block_parameters, one_classifier, variant_config

NUMBER = 4  # bytes in float32
PROGRAM = 2**29  # bytes of Python, its libraries and an engine
COPIES = 8  # of the weights: themselves, gradients, Adam's two, those of the best, averages and saving
HELD = 8  # times what the layers of a batch keep for the gradient: what the allocator does not give back
PAIR = 4096  # bytes of a pair of sentences as Python's text, while it is prepared


def step_memory(step: StudyStep) -> int:
    """The bytes that a step may need. A step that translates gets what training the same model takes:
    a search keeps less than a gradient needs."""
    study = step.study
    words, aligned = study.data.vocabulary, study.config
    match step:
        case TrainStep():
            return PROGRAM + model_memory(variant_config(step.variant, aligned, study.second_stage), words)
        case CostStep():
            one = with_changes(aligned, one_classifier(aligned.model.blocks))
            return PROGRAM + model_memory(aligned, words) + model_memory(one, words)
        case MeasureStep() | ScoreStep() | WordsStep() | ChooseWordsStep() | TuneStep():
            return PROGRAM + model_memory(aligned, words)
        case DistilStep() | JoinStep():
            return PROGRAM + model_memory(aligned, words) + PAIR * study.data.pairs["train"]
        case HeatStep():
            runs = len(step.heat.runs(study))
            return PROGRAM + model_memory(aligned, words) + 2 * runs * NUMBER * weights(aligned, words)
        case HoldOutStep() | AgreeOnWordsStep() | CompareStep():
            return PROGRAM
    raise AssertionError(f"nobody has estimated the memory of {type(step).__name__}")


def model_memory(config: Config, vocabulary: int) -> int:
    """The bytes that training a model of these settings may need beside the program itself."""
    return NUMBER * (COPIES * weights(config, vocabulary) + HELD * config.training.batch_tokens * token_states(config))


def weights(config: Config, vocabulary: int) -> int:
    """About the number of a model's weights, where both sides have so many words."""
    model, (encoder_block, decoder_block) = config.model, block_parameters(config)
    classifiers = len(model.classifier_exits) if model.classifiers == "untied" else 1
    return (
        model.encoder.blocks * encoder_block
        + model.blocks * decoder_block
        + vocabulary * (model.encoder.dim + (1 + classifiers) * model.decoder.dim)
    )


def token_states(config: Config) -> int:
    """About how many numbers the layers keep of a token for the gradient: 12 states of an encoder
    block, 20 of a decoder block, and each feed-forward layer before and after its activation."""
    model = config.model
    paths = config.training.paths if config.training.mode == "mixed" else 1
    return model.encoder.blocks * (12 * model.encoder.dim + 2 * model.encoder.ffn_dim) + paths * model.blocks * (
        20 * model.decoder.dim + 2 * model.decoder.ffn_dim
    )
