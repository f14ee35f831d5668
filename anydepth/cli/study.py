"""The verbs `anydepth study`, which does the paper's experiments, and `anydepth study-step`, which
does one step of them."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from anydepth.cli.options import examples, say, settings_file
from anydepth.errors import UsageError
from anydepth.limits import MOST_JOBS, MOST_MINUTES, MOST_SEEDS

STUDY_EXAMPLES = examples(
    "anydepth study table1 --data runs/demo/data --to studies/demo --dry-run",
    "anydepth study all --data runs/demo/data --to studies/demo",
    "anydepth study race --data data --to studies/race --config multi30k_race --exit-config race_students --seeds 3",
    "anydepth study figure3 figure4 --data data --to studies/own --config multi30k_study --minutes-per-run 10",
)
STEP_EXAMPLES = examples("anydepth study-step studies/demo 'train aligned'")
NAMES = "table1, table2, table3, figure3, figure4, figure5, figures6-9, cost, rivals, seq-bleu, race, race-own, all"
ExitConfig = Annotated[
    Path | None,
    typer.Option(help="What a second stage changes. Default: a quarter of the updates at half of the rate."),
]
Repeated = Annotated[
    list[str] | None,
    typer.Option(
        metavar="RUN[:K]",
        help="A rival of a race that is trained with every seed, too, or with the first K, as in race-plain-2:3.",
    ),
]
MinutesPerRun = Annotated[
    float | None,
    typer.Option(
        min=0.01,
        max=MOST_MINUTES,
        help="As many updates as the aligned model does in this time, for all variants. Default: training.updates.",
    ),
]
Seeds = Annotated[
    int,
    typer.Option(
        min=1,
        max=MOST_SEEDS,
        help="Train every run so many times, with other random numbers; of a race the adaptive model alone.",
    ),
]
On = Annotated[
    Literal["local", "ray"],
    typer.Option(help="Where steps run: on this machine, or on a Ray cluster whose machines share the folders."),
]
Address = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="The Ray cluster. Default: one that is started here for the study."),
]


def register(app: typer.Typer) -> None:
    app.command(epilog=STUDY_EXAMPLES)(study)
    app.command("study-step", epilog=STEP_EXAMPLES)(study_step)


def study(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help=f"Experiments of the paper: {NAMES} (but the two races).")
    ],
    data: Annotated[Path, typer.Option(help="Folder that `anydepth prepare` made, with a test set.")],
    to: Annotated[Path, typer.Option(help="Folder for the study; the same one goes on with it.")],
    config: Annotated[
        Path | None,
        typer.Option(
            help="Settings of the aligned model, a file or a name, from which all variants are made. Default: "
            "demo_study."
        ),
    ] = None,
    exit_config: ExitConfig = None,
    minutes_per_run: MinutesPerRun = None,
    seeds: Seeds = 1,
    repeat: Repeated = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=MOST_JOBS, help="Steps at a time. Default: one for each core.")
    ] = None,
    on: On = "local",
    address: Address = None,
    title: Annotated[
        str | None, typer.Option(help="What the report calls the text. Default: the folder's name and its pairs.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
) -> None:
    """Run the paper's experiments on prepared text; what they share is trained once, and a stopped
    study goes on where it was."""
    from anydepth.experiments.places import LocalPlace
    from anydepth.experiments.ray_place import ray_place
    from anydepth.experiments.study import run_study
    from anydepth.experiments.wishes import StudyWishes

    if address is not None and on == "local":
        raise UsageError(f"--address {address} names a Ray cluster; add --on ray, or leave it out")
    wishes = StudyWishes(
        names=names,
        data=data,
        to=to,
        config=config and settings_file(config),
        exit_config=exit_config and settings_file(exit_config),
        minutes_per_run=minutes_per_run,
        seeds=seeds,
        repeated=tuple(repeat or ()),
        title=title,
    )
    match on:
        case "local":
            run_study(wishes, LocalPlace.of(jobs), is_dry=dry_run, say=say)
        case "ray":
            with ray_place(address, jobs, say=say) as place:
                run_study(wishes, place, is_dry=dry_run, say=say)


def study_step(
    folder: Annotated[Path, typer.Argument(metavar="STUDY", help="Folder of the study.")],
    name: Annotated[str, typer.Argument(metavar="STEP", help="Name of the step, as study.json has it.")],
) -> None:
    """Do one step of a study that was begun, in this process; what `study` itself does for each."""
    from anydepth.experiments.step_process import die_with_parent

    die_with_parent()  # before torch is loaded, which takes seconds in which a study may be killed
    from anydepth.experiments.study import do_step

    do_step(folder, name, say=say)
