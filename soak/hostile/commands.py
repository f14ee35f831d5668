"""The commands that meet each file, option and place of the valid world."""

PREPARE = "--source-lang de --target-lang en --train train --valid valid --vocab-size 310"
TUNE = "--valid held --candidates 20 --segment 1 --beam 1 --objective average-exit"
BENCH = "--rounds 1 --sentences 1 --batch 1 --beam 1 --fp32 --engine torch"
SHAPE = f"bench --shape tiny.toml --exits-histogram 0.5,0.3,0.2 {BENCH}"
SHORT = "--set training.updates=1 --minutes 0.01"
TRAIN = f"train tiny.toml --data data --to new {SHORT}"
RESUME = "train --resume --to exits --set training.updates=5"
STUDY = "study table3 --data data --to new --config tiny.toml --dry-run"
REUSE = "prepare --source-lang de --target-lang en --train train --valid valid --to more --tokenizer-from"
ORACLE = "--set exits.halting=sequence --set exits.oracle=bleu"
REPORT = ["report study --to page"]

CONFIG_COMMANDS = [
    "translate exits --engine torch",
    "translate exits --engine native --policy geometric:0.5",
    "translate exits --engine onnx",
    "evaluate exits --test test",
    f"tune exits {TUNE}",
    "export exits --format onnx",
    f"bench exits --test test {BENCH}",
    RESUME,
    f"train --from exits --to new {SHORT}",
    "plot tokens exits hund --to tokens.png",
    "score-exits exits --sentences 2",
]
TEXT_FILES: dict[str, list[str]] = {
    "tiny.toml": [
        TRAIN,
        f"train --from run tiny.toml --to new {SHORT}",
        STUDY,
        "study table3 --data data --to new --config run/config.toml --exit-config tiny.toml --dry-run",
        SHAPE,
    ],
    "exits/config.toml": CONFIG_COMMANDS,
    "exits/operating_points.json": [
        "translate exits --average-exit 2",
        "translate exits --flops 0.9 --policy geometric",
        "evaluate exits --test test --bleu-drop 1",
        "plot tradeoff exits/operating_points.json --to picture.png",
        f"tune exits {TUNE}",
        "export exits --format onnx",
    ],
    "exits/export/onnx/manifest.json": ["translate exits --engine onnx", "evaluate exits --test test --engine onnx"],
    "exits/data.json": ["evaluate exits --test test", RESUME, f"tune exits {TUNE}", "score-exits exits --sentences 2"],
    "exits/origin.json": [RESUME],
    "exits/metrics.jsonl": [RESUME],
    "exits/tuning.jsonl": [f"tune exits {TUNE}"],
    "data/manifest.json": [TRAIN, STUDY, RESUME, f"{REUSE} data"],
    "evaluation.json": ["plot tradeoff evaluation.json --to picture.svg"],
    "begun/study.json": [
        "study table3 --data data --to begun --config tiny.toml --dry-run",
        "study-step begun compare",
        "report begun --to page",
    ],
    "study/study.json": REPORT,
    "study/records/runs/aligned.json": REPORT,
    "study/records/trends.json": REPORT,
    "study/records/comparisons.json": REPORT,
    "study/records/tokens.json": REPORT,
    "study/records/positions.json": REPORT,
    "study/records/scores.json": REPORT,
    "study/records/cost.json": REPORT,
}
OTHER_FILES: dict[str, list[str]] = {
    "exits/model.safetensors": [
        "translate exits",
        "evaluate exits --test test",
        f"train --from exits --to new {SHORT}",
    ],
    "exits/state.safetensors": [RESUME],
    "exits/tokenizer.model": ["translate exits", f"{REUSE} exits"],
    "run/exit_scores.safetensors": ["score-exits run", f"train --from run --to new {ORACLE} {SHORT}"],
    "exits/export/onnx/encoder.onnx": ["translate exits --engine onnx"],
    "data/tokenizer.model": [TRAIN],
    "data/train.de.offsets": [TRAIN],
    "train.de": [f"prepare {PREPARE} --to more"],
    "test.en": ["evaluate exits --test test"],
}
WISHES = "--average-exit --flops --bleu-drop"
OPTIONS: dict[str, str] = {  # a valid command, and options that take numbers
    "translate exits": f"--beam --best --batch-tokens --length-penalty {WISHES}",
    "evaluate exits --test test": f"--beam --batch-tokens --length-penalty {WISHES}",
    f"tune exits {TUNE}": "--candidates --segment --decoded --seed --beam --length-penalty --batch-tokens",
    f"prepare {PREPARE} --to more": "--vocab-size --max-tokens --max-ratio --sample",
    "corpus --to more": "--seed",
    TRAIN: "--minutes",
    f"bench exits --test test {BENCH}": "--rounds --sentences --batch --beam --threads --seed --average-exit",
    SHAPE: "--vocab --source-length --output-length --seed --exits-histogram",
    STUDY: "--seeds --jobs --minutes-per-run",
    "score-exits run --overwrite": "--sentences --beam",
    "export exits --format ctranslate2": "--exit",
    "data wmt14-en-fr --archive train.de --to more": "--max-words --jobs",
}
# Valid commands with a place, marked by @, where a path or a word stands.
PLACES = [
    "translate @exits test.de",
    "translate exits @test.de",
    "translate exits --engine @torch",
    "translate exits --policy @fixed:1",
    "evaluate exits --test @test",
    "evaluate exits --test test --against @fixed:1",
    "evaluate exits --test test --output @lines",
    f"tune exits {TUNE} --policy @confidence",
    f"tune exits {TUNE} --method @decode",
    "tune exits --valid @held --objective average-exit --candidates 20 --segment 1 --beam 1",
    "export exits --format @onnx",
    "plot tokens exits @hund --to a.png",
    "plot tokens exits hund --to @a.png",
    "plot tradeoff @evaluation.json --to a.png",
    "report @study --to page",
    "report study --to @page",
    f"train @tiny.toml --data data --to new {SHORT}",
    f"train tiny.toml --data @data --to new {SHORT}",
    f"train tiny.toml --data data --to @new {SHORT}",
    f"train --from @run --to new {SHORT}",
    "prepare --source-lang @de --target-lang en --train train --valid valid --vocab-size 310 --to more",
    "prepare --source-lang de --target-lang en --train @train --valid valid --vocab-size 310 --to more",
    "prepare --source-lang de --target-lang en --train train --valid valid --vocab-size 310 --to @more",
    "study @table3 --data data --to new --config tiny.toml --dry-run",
    "study-step begun @compare",
    "corpus --to @more",
    "data multi30k --archive @train.de --to more",
    "data iwslt14 --archive @train.de --to more",
]
SETTINGS = (
    "model.blocks model.heads model.encoder.dim model.max_length training.exit_weights training.seed "
    "exits.halting model a.b.c"
)
