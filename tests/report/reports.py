"""What the tests of the report share: making one, narrowing a study, and what a whole report
holds."""

from pathlib import Path

from report.studies import EXPERIMENTS, change

from anydepth.report.markdown import markdown_text
from anydepth.report.page import page_html
from anydepth.report.report import make_document, write_report
from anydepth.report.study_records import read_study

RUNS = "records/runs"
SECTIONS = [
    *("agreement", "table-1", "table-2-valid", "table-2-test", "table-3-valid", "table-3-test"),
    *("figure-3", "figure-4", "figure-5", "figures-6-7", "figure-8", "figure-9", "cost", "rivals", "seq-bleu", "plan"),
]
PICTURES = {
    *(
        "figure-3a",
        "figure-3b",
        "figure-3c",
        "figure-4a",
        "figure-4b",
        "figure-5a",
        "figure-5b",
        "figure-6-7-1",
        "figure-6-7-2",
    ),
    *(f"figure-{figure}-{place}" for figure in (8, 9) for place in (1, 2, 3)),
    *("rivals-flops", "seq-bleu-exits"),
}


def quiet(words: str) -> None:
    pass


def page_of(folder: Path) -> str:
    """The page of a study, without a file."""
    return page_html(make_document(read_study(folder)))


def report(folder: Path) -> tuple[str, str]:
    """The page and the Markdown of a study, without a file."""
    document = make_document(read_study(folder))
    return page_html(document), markdown_text(document)


def written_report(folder: Path) -> tuple[str, str]:
    """The page and the Markdown of a study, as they are written."""
    write_report(folder, to=None, say=quiet)
    return (folder / "report.html").read_text(encoding="utf-8"), (folder / "report.md").read_text(encoding="utf-8")


def ask_only_for(folder: Path, name: str) -> None:
    """Narrows a study to the experiment of one section, which is faster; the agreement and the plan
    are always shown."""
    short = name.removesuffix("-valid").removesuffix("-test").replace("table-", "table").replace("figure-", "figure")
    others = {"figures-6-7": "figures6-9", "figure8": "figures6-9", "figure9": "figures6-9"}
    wanted = (others | {"agreement": "table1", "plan": "cost", "": "cost"}).get(short, short)
    assert wanted in EXPERIMENTS
    change(folder / "study.json", "experiments", to=[wanted])
