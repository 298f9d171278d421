"""``polyopt lab``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

_INSTALL = "the lab needs what is installed by: pip install 'polyopt[lab]'"


def lab(
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of this machine; 0 for a free one.")
    ] = 8765,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")
    ] = True,
    points: Annotated[
        str | None, typer.Option(help="Data to begin with: the name of a set, or a file of two classes.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Column of a file's classes, by name or place; the last by default.")
    ] = None,
) -> None:
    """Open a page where points are drawn and dragged, and programs solved and certified at once.

    It is served to this machine alone, and to whoever has the link that is printed. Ctrl-C ends it.
    """
    import importlib.util
    import signal

    from polyopt.cli.console import say
    from polyopt.cli.stopping import came, tell

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
    """The state to begin with, and what its axes and classes are called."""
    from pathlib import Path

    from polyopt.cli.console import say
    from polyopt.datasets import load, names, open_source
    from polyopt.lab.sets import beginning, dataset, datasets, points_of, state_of
    from polyopt.lab.tables import read_own

    if points is None:
        if target is not None:
            raise ValueError("--target is a column of a file: give one by --points FILE")
        return beginning()
    known = [one["name"] for one in datasets()]
    is_file = points == "-" or Path(points).exists()
    if is_file:
        found, note = read_own(open_source(points), target)
        told = points_of(found, note=note)
    elif target is not None:
        raise ValueError(f"--target is a column of a file, and {points!r} is none")
    elif points in known:
        told = dataset({"name": points})
    elif points in names():
        told = points_of(load(points))
    else:
        raise ValueError(f"{points!r} is neither a file nor a known data set; known: {', '.join(known)}")
    say(told["sentence"])
    return {**state_of(told["points"]), "axes": told["axes"], "classes": told["classes"]}


def _warm(begin: dict[str, Any]) -> None:
    """Solve the first state, with each kernel, so that what is imported is there when the page opens."""
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
        # Some browsers hold whoever calls them; the socket listens already, so the page may come early.
        threading.Thread(target=webbrowser.open, args=[link], daemon=True).start()
    serve(lab_app(port, token, begin), listening)
