"""`anydepth report`: a page, its Markdown twin and the pictures, from a study's records."""

from collections.abc import Callable
from pathlib import Path

from anydepth.errors import UsageError
from anydepth.experiments.variants import OWN_RACE, RACE, RACES
from anydepth.figures.svg import MADE_BY, standalone
from anydepth.files.atomic import write_text
from anydepth.messages.say import Say
from anydepth.report.agreement import agreement_section
from anydepth.report.behaviour import behaviour_sections
from anydepth.report.beyond import cost_section, rivals_section, seq_bleu_section
from anydepth.report.document import Document, Section, Text, pictures
from anydepth.report.markdown import markdown_text
from anydepth.report.page import page_html
from anydepth.report.plan_section import opening, plan_section
from anydepth.report.race_section import race_section
from anydepth.report.study_records import StudyRecords, read_study
from anydepth.report.tables import table_sections
from anydepth.report.tradeoff_sections import figure_3_section, figure_4_section, figure_5_section

SECTIONS: tuple[tuple[str, Callable[[StudyRecords], Section]], ...] = (
    ("figure3", figure_3_section),
    ("figure4", figure_4_section),
    ("figure5", figure_5_section),
)
LAST_SECTIONS: tuple[tuple[str, Callable[[StudyRecords], Section]], ...] = (
    ("cost", cost_section),
    ("rivals", rivals_section),
    ("seq-bleu", seq_bleu_section),
    (RACE, race_section),
    (OWN_RACE, race_section),
)


def write_report(folder: Path, *, to: Path | None, say: Say) -> None:
    """Writes report.html, report.md and pictures/*.svg to `to`, or into the study's own folder."""
    folder = Path(folder)
    to = folder if to is None else Path(to)
    document = make_document(read_study(folder))
    drawn = [picture for section in document.sections for picture in pictures(section.blocks)]
    try:
        (to / "pictures").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write to {to}: {error.strerror or error}; check the path and its permissions"
        ) from error
    for picture in drawn:
        write_text(to / "pictures" / f"{picture.name}.svg", standalone(picture.svg))
    write_text(to / "report.md", markdown_text(document))
    write_text(to / "report.html", page_html(document))
    _remove_old_pictures(to / "pictures", {f"{picture.name}.svg" for picture in drawn})
    gone = sum(
        isinstance(block, Text) and block.kind == "missing" for section in document.sections for block in section.blocks
    )
    say(
        f"wrote {to / 'report.html'}, {to / 'report.md'} and {len(drawn)} pictures"
        + (f"; {gone} notes tell what is missing" if gone else "")
    )


def _remove_old_pictures(folder: Path, kept: set[str]) -> None:
    """Removes the pictures that an earlier report made and this one did not; a file of another
    origin stays."""
    for path in sorted(folder.glob("*.svg")):
        if path.name not in kept and path.read_bytes().startswith(MADE_BY.encode()):
            path.unlink()


def make_document(study: StudyRecords) -> Document:
    """The report of a study: its state, the claims, then the paper's tables and figures in order,
    and the plan."""
    has_claims = not set(study.plan.experiments) <= set(RACES)  # of the paper, which a race does not examine
    sections = [*([agreement_section(study)] if has_claims else []), *table_sections(study)]
    sections += [make(study) for experiment, make in SECTIONS if study.asks_for(experiment)]
    if study.asks_for("figures6-9"):
        sections += behaviour_sections(study)
    sections += [make(study) for experiment, make in LAST_SECTIONS if study.asks_for(experiment)]
    sections.append(plan_section(study))
    return Document(study.plan.title, opening(study), tuple(sections))
