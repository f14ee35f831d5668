"""Figures 6 to 9: which tokens a model thinks about, where in a sentence, and how sure it is
then."""

from collections.abc import Sequence

from anydepth.experiments.records import PositionModelRecord, SampleRecord, ScoreModelRecord, TokensRecord
from anydepth.figures.glyphs import piece_words
from anydepth.figures.positions import END, START, mean_exit, positions_svg
from anydepth.figures.probabilities import scores_svg
from anydepth.figures.sentence import tokens_svg
from anydepth.report.document import Block, Cell, Code, FactList, Gallery, Picture, Quoted, Row, Section, Table, Text
from anydepth.report.missing import missing, recipe
from anydepth.report.study_records import StudyRecords
from anydepth.text.tokenizer import WORD_START

MOST_MODELS = 3  # as in the paper
PAPERS_PANELS = "The paper shows three models instead."


def behaviour_sections(study: StudyRecords) -> list[Section]:
    """The sections of figures 6 and 7, 8 and 9."""
    return [_tokens_section(study), _positions_section(study), _scores_section(study)]


def _runs_named(study: StudyRecords, names: list[str]) -> tuple[Block, ...]:
    return recipe(study, (study.runs[name] for name in names if name in study.runs))


def _operating_points(models: Sequence[PositionModelRecord] | Sequence[ScoreModelRecord]) -> Text:
    """What the panels are: depths of one run, or of several where the records say so."""
    runs = tuple(dict.fromkeys(model.run for model in models))
    if len(runs) > 1:
        return Text(("Each panel is a run with a policy: ", ", ".join(runs), ". ", PAPERS_PANELS))
    what = (
        "The panel is an operating point (depth)"
        if len(models) == 1
        else f"The {len(models)} panels are operating points (depths)"
    )
    return Text((f"{what} of one run, ", Code(runs[0]), ". ", PAPERS_PANELS))


def _panel_title(
    model: PositionModelRecord | ScoreModelRecord, models: Sequence[PositionModelRecord] | Sequence[ScoreModelRecord]
) -> str:
    title = f"AE {model.average_exit:.2f}"
    return title if len({each.run for each in models}) == 1 else f"{title} ({model.run})"


def _tokens_section(study: StudyRecords) -> Section:
    title = "Figures 6 and 7: token by token"
    record = study.tokens
    if record is None:
        return Section(
            "figures-6-7", title, (missing(study, "records/tokens.json, the exits and scores of some sentences."),)
        )
    blocks: list[Block] = [
        Text(
            (
                "Each token's exit and its probability there. Run ",
                Code(record.run),
                ", policy ",
                Code(record.policy),
                ".",
            )
        ),
    ]
    for place, sample in enumerate(record.samples, start=1):
        blocks.append(_sample_picture(record, sample, place))
        translation = "".join(piece for piece in sample.tokens if piece != "</s>").replace(WORD_START, " ").strip()
        blocks.append(
            FactList(
                (
                    ("source", (Quoted(sample.source),)),
                    ("reference", (Quoted(sample.reference),)),
                    ("translation", (Quoted(translation),)),
                )
            )
        )
    return Section("figures-6-7", title, (*blocks, *_runs_named(study, [record.run])))


def _sample_picture(record: TokensRecord, sample: SampleRecord, place: int) -> Picture:
    average = sum(sample.exits) / len(sample.exits)
    title = f"Sentence {place}: average exit {average:.2f} of {record.blocks}, {len(sample.tokens)} tokens"
    alt = f"{title}. A pair of bars for each token: its exit and its probability."
    rows = tuple(
        Row((str(t),), (Cell(Quoted(piece_words(piece))), Cell(str(left)), Cell(f"{score:.3f}")))
        for t, (piece, left, score) in enumerate(zip(sample.tokens, sample.exits, sample.scores, strict=True), start=1)
    )
    values = Table(f"Sentence {place}: values", ("t", "token", "exit", "probability"), rows, texts=2)
    name = f"figure-6-7-{place}"
    svg = tokens_svg(sample.tokens, sample.exits, sample.scores, blocks=record.blocks, name=name, description=alt)
    return Picture(name, title, svg, alt, values, is_wide=True)


def _positions_section(study: StudyRecords) -> Section:
    title = "Figure 8: exits at the start and at the end of sentences"
    if study.positions is None:
        return Section("figure-8", title, (missing(study, "records/positions.json, the exits by position."),))
    models = study.positions.models[:MOST_MODELS]
    blocks: list[Block] = [
        Text(
            ("The first and the last tenth of each translation's tokens. In the paper models go deeper at the start.",)
        ),
        _operating_points(models),
        Gallery(
            tuple(
                _position_picture(model, _panel_title(model, models), place)
                for place, model in enumerate(models, start=1)
            )
        ),
        Text(("The paper's three models (WMT'14 English to French) have average exits 2.53, 3.79 and 4.68.",), "note"),
        *_runs_named(study, [model.run for model in models]),
    ]
    return Section("figure-8", title, tuple(blocks))


def _position_picture(model: PositionModelRecord, title: str, place: int) -> Picture:
    about = f"{title}, run {model.run}, policy {model.policy}."
    alt = f"{about} Mean exit {mean_exit(model.start):.2f} at the start and {mean_exit(model.end):.2f} at the end."
    shares = zip(model.start, model.end, strict=True)
    rows = tuple(
        Row((str(n),), (Cell(f"{start:.1f}"), Cell(f"{end:.1f}"))) for n, (start, end) in enumerate(shares, start=1)
    )
    values = Table(f"{title}: percent of tokens", ("exit", START, END), rows, texts=1)
    name = f"figure-8-{place}"
    return Picture(name, title, positions_svg(model.start, model.end, name=name, description=alt), alt, values)


def _scores_section(study: StudyRecords) -> Section:
    title = "Figure 9: exits and probabilities"
    if study.scores is None:
        return Section("figure-9", title, (missing(study, "records/scores.json, the joint histograms."),))
    models = study.scores.models[:MOST_MODELS]
    blocks: list[Block] = [
        Text(
            (
                "Percent of all tokens by exit and probability; colours on a logarithmic scale, a white cell has no "
                "token.",
            )
        ),
        _operating_points(models),
        Gallery(
            tuple(
                _score_picture(model, _panel_title(model, models), place) for place, model in enumerate(models, start=1)
            )
        ),
        Text(
            ("In the paper low exits (n ≤ 2) go with probabilities of 0.8 to 1 and high ones (n ≥ 4) with 0 to 0.5.",),
            "note",
        ),
        *_runs_named(study, [model.run for model in models]),
    ]
    return Section("figure-9", title, tuple(blocks))


def _score_picture(model: ScoreModelRecord, title: str, place: int) -> Picture:
    about = f"{title}, run {model.run}, policy {model.policy}."
    alt = f"{about} Joint histogram of exits and probabilities of {sum(map(sum, model.counts)):,} tokens."
    columns = ("exit", *(f"{place / model.bins:g} to {(place + 1) / model.bins:g}" for place in range(model.bins)))
    rows = tuple(
        Row((str(n),), tuple(Cell(f"{count:,}") for count in counts)) for n, counts in enumerate(model.counts, start=1)
    )
    values = Table(f"{title}: tokens by exit and probability", columns, rows, texts=1)
    name = f"figure-9-{place}"
    return Picture(name, title, scores_svg(model.counts, name=name, description=alt), alt, values)
