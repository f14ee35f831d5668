"""The verb `anydepth serve`: runs behind LibreTranslate's and DeepL's API, and a page."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from anydepth.cli.options import Beam, EngineName, Int8, examples, tell_if_unfinished
from anydepth.errors import UsageError
from anydepth.inference.engines.names import AUTOMATIC
from anydepth.limits import MOST_THREADS, MOST_UPDATES

EXAMPLES = examples(
    "anydepth serve runs/demo/exits",
    "anydepth serve runs/demo/exits --port 8080 --keys keys.json --requests-per-minute 60",
)
NEEDED = ("fastapi", "multipart", "prometheus_client", "py3langid", "sentencex", "uvicorn")

Runs = Annotated[
    list[Path],
    typer.Argument(metavar="RUN...", help="Run directories, one for each language pair.", show_default=False),
]
Host = Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 is all of this machine's.")]
Port = Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen at; 0 is any free one.")]
Threads = Annotated[
    int | None, typer.Option(min=1, max=MOST_THREADS, help="Threads of each run's search. Default: torch's number.")
]
Keys = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Only who has a key of this file may ask; see `anydepth keys`.")
]
Cors = Annotated[
    list[str] | None, typer.Option(metavar="ORIGIN", help="Site whose pages may ask, too; may be repeated; * is all.")
]
Proxies = Annotated[
    list[str] | None,
    typer.Option(metavar="ADDRESS", help="Proxy whose X-Forwarded-For is believed; may be repeated."),
]
LogText = Annotated[bool, typer.Option("--log-text", help="Log texts and translations, too.")]
Characters = Annotated[int, typer.Option(min=1, max=MOST_UPDATES, help="Most characters of a request.")]
Items = Annotated[int, typer.Option(min=1, max=MOST_UPDATES, help="Most texts of a request.")]
BodyBytes = Annotated[int, typer.Option(min=1, max=MOST_UPDATES, help="Most bytes of a request's body.")]
Alternatives = Annotated[int, typer.Option(min=0, max=100, help="Most alternatives of a text.")]
RequestsPerMinute = Annotated[
    int, typer.Option(min=0, max=MOST_UPDATES, help="Most requests a minute of a key or an address; 0: no limit.")
]
Waiting = Annotated[
    int, typer.Option(min=2, max=MOST_UPDATES, help="Most sentences that wait; an owner may have half of them.")
]
Seconds = Annotated[float, typer.Option(min=0.1, max=86_400, help="Most seconds until a request is answered.")]
BodySeconds = Annotated[float, typer.Option(min=0.1, max=86_400, help="Most seconds that a request takes to come.")]
Connections = Annotated[int, typer.Option(min=1, max=MOST_UPDATES, help="Most connections at a time.")]


def register(app: typer.Typer) -> None:
    app.command(epilog=EXAMPLES)(serve)


def serve(
    runs: Runs,
    host: Host = "127.0.0.1",
    port: Port = 5000,
    engine: EngineName = AUTOMATIC,
    int8: Int8 = False,
    threads: Threads = None,
    beam: Beam = None,
    keys: Keys = None,
    cors: Cors = None,
    proxies: Proxies = None,
    log_text: LogText = False,
    characters: Characters = 20_000,
    items: Items = 100,
    body_bytes: BodyBytes = 262_144,
    alternatives: Alternatives = 3,
    requests_per_minute: RequestsPerMinute = 300,
    waiting: Waiting = 4_000,
    seconds: Seconds = 60.0,
    body_seconds: BodySeconds = 10.0,
    connections: Connections = 500,
) -> None:
    """Serve runs over HTTP with LibreTranslate's and DeepL's API and a page, until SIGTERM or
    Ctrl-C; every request that was accepted is answered first."""
    if absent := [name for name in NEEDED if find_spec(name) is None]:
        raise UsageError(
            f"`anydepth serve` needs {', '.join(absent)}, which is not installed; "
            "install it with `pip install 'anydepth[server]'`"
        )
    for run in runs:
        tell_if_unfinished(run)
    from anydepth.server.process import ServingPlace
    from anydepth.server.serving import ServingSettings, serve_runs
    from anydepth.server.serving_limits import ServingLimits

    limits = ServingLimits(
        characters=characters,
        items=items,
        body_bytes=body_bytes,
        alternatives=alternatives,
        requests_per_minute=requests_per_minute,
        waiting=waiting,
        seconds=seconds,
        body_seconds=body_seconds,
        connections=connections,
    )
    serve_runs(
        ServingSettings(
            runs=runs,
            place=ServingPlace(host, port, tuple(proxies or ())),
            engine=engine,
            int8=int8,
            threads=threads,
            beam=beam,
            limits=limits,
            keys=keys,
            origins=tuple(cors or ()),
            logs_text=log_text,
        )
    )
