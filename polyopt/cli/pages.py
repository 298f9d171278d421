"""``polyopt lab``, ``lecture`` and ``handbook``: pages that are served, written or opened."""

import signal
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from polyopt.base.text import visible
from polyopt.cli.console import came, progress, say, tell

_INSTALL = "the lab needs what is installed by: pip install 'polyopt[lab]'"


def lab(
    port: Annotated[int, Option(min=0, max=65535, help="Port of this machine; 0 for a free one.")] = 8765,
    browser: Annotated[bool, Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    points: Annotated[
        str | None, Option(help="Data to begin with: the name of a set, or a file of two classes.")
    ] = None,
    target: Annotated[
        str | None, Option(help="Column of a file's classes, by name or place; the last by default.")
    ] = None,
) -> None:
    """Open a page where points are drawn and dragged, and programs solved and certified at once.

    It is served to this machine alone, by the printed link. Ctrl-C ends it.
    """
    import importlib.util

    if missing := [
        name for name in ("starlette", "uvicorn", "websockets") if importlib.util.find_spec(name) is None
    ]:
        raise ValueError(f"{_INSTALL} (there is no {' and no '.join(missing)})")
    from polyopt.lab.server import listening_socket

    begin = _beginning(points, target)
    listening = listening_socket(port)
    tell("the lab has ended")
    with listening:
        _warm(begin)
        try:
            _serve(listening, begin, browser)
        except KeyboardInterrupt:
            if came() == signal.SIGTERM:
                raise
    say("The lab has ended.")


def _beginning(points: str | None, target: str | None) -> dict[str, Any]:
    """Return the first state, with the names of its axes and classes."""
    from polyopt.datasets import names, open_source
    from polyopt.lab.sets import beginning, menu, named_set, points_of, read_file, state_of

    if points is None:
        if target is not None:
            raise ValueError("--target is a column of a file: give one by --points FILE")
        return beginning()
    known = [entry["name"] for entry in menu()]
    if points == "-" or Path(points).exists():
        data, note = read_file(open_source(points), target)
    elif target is not None:
        raise ValueError(f"--target is a column of a file, and {points!r} is none")
    elif points in known or points in names():
        data, note = named_set(points), ""
    else:
        raise ValueError(f"{points!r} is neither a file nor a known data set; known: {', '.join(known)}")
    shown = points_of(data, note=note)
    say(shown["sentence"])
    return {**state_of(shown["points"]), "axes": shown["axes"], "classes": shown["classes"]}


def _warm(begin: dict[str, Any]) -> None:
    """Solve the first state with each kernel, so that all modules are imported when the page opens."""
    from polyopt.lab.engine import Engine

    engine = Engine(lambda message: None)
    for kernel in ("linear", "rbf"):
        settings = {**begin["settings"], "kernel": kernel}
        engine.receive({"id": 0, "op": "solve", "state": {**begin, "settings": settings}})
        engine.wait()
    engine.close()


def _serve(listening: Any, begin: dict[str, Any], browser: bool) -> None:
    import secrets
    import threading
    import webbrowser

    from polyopt.lab.server import HOST, lab_app, serve

    port, token = listening.getsockname()[1], secrets.token_urlsafe(32)
    link = f"http://{HOST}:{port}/?token={token}"
    typer.echo(f"The lab is at {link}\nCtrl-C ends it.")
    if browser:
        # Some browsers block the caller. The socket listens already, so the page may be requested early.
        threading.Thread(target=webbrowser.open, args=[link], daemon=True).start()
    serve(lab_app(port, token, begin), listening)


def lecture(
    name: Annotated[
        str | None, Argument(help="Which lecture; without one, they are listed.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, Option(help="The folder to write; by default lecture-NAME.", show_default=False)
    ] = None,
    force: Annotated[
        bool, Option("--force", help="Replace its files in a folder that is not empty.")
    ] = False,
    quiet: Annotated[bool, Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Write a lecture: slides, exercises, their solutions, pictures, programs.

    The slides are one page that needs no network: arrows, space and Home turn it,
    n shows what the speaker says, f fills the screen; it prints a slide a page.
    Exercises and solutions are notebooks, pictures are SVG, programs are LaTeX.
    """
    from polyopt.lecture import LECTURES, check_lecture_folder, find_lecture, lecture_files, write_folder

    if name is None:
        if out is not None or force:
            raise ValueError("--out and --force are of one lecture: name it")
        width = max(map(len, LECTURES))
        for entry in LECTURES.values():
            typer.echo(f"{entry.name:<{width}}  {entry.title}")
        return
    chosen = find_lecture(name)
    folder = Path(f"lecture-{chosen.name}") if out is None else out
    check_lecture_folder(folder, force)
    with progress("part", quiet, total=4) as part:

        def begin(words: str) -> None:
            part.done(part.text != "")
            part.name(words)

        files = lecture_files(chosen, on_step=begin)
    write_folder(folder, files, force=force)
    typer.echo(f"{chosen.title}: {visible(str(folder))}")
    for file, text in files.items():
        typer.echo(f"  {file:<28}{len(text.encode()) / 1000:>7.0f} kB")


def handbook(
    page: Annotated[
        str | None,
        Argument(
            help="A page to begin with, such as optimisation, certificates or tour.", show_default=False
        ),
    ] = None,
    out: Annotated[Path | None, Option(help="Write the site into this folder, and do not open it.")] = None,
) -> None:
    """Open the handbook: chapters, programs, reference, commands, results.

    It is built once for each version and kept; it needs no network, has a search, and works from files.
    """
    import webbrowser

    from polyopt.handbook.site import MARK, build_site, check_installed, kept_site, page_of, site_folder

    check_installed()
    page_of(Path(), page)
    tell("the handbook was not written")
    if out is not None:
        with progress("handbook", total=1) as step:
            build_site(out, tell=step.name)
        typer.echo(page_of(out, page))
        return
    if not (site_folder() / MARK).is_file():
        say("building the handbook; it is kept for the next time")
    with progress("handbook", total=1) as step:
        file = page_of(kept_site(step.name), page)
    typer.echo(file)
    if not webbrowser.open(file.as_uri()):
        say("no browser was found: open this file in one")
