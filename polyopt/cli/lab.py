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
) -> None:
    """Open a page where points are drawn and dragged, and programs solved and certified at once.

    It is served to this machine alone, and to whoever has the link that is printed. Ctrl-C ends it.
    """
    import importlib.util

    from formulations.termination import Terminated
    from polyopt.cli.console import say
    from polyopt.cli.stopping import tell

    if missing := [
        name for name in ("starlette", "uvicorn", "websockets") if importlib.util.find_spec(name) is None
    ]:
        raise ValueError(f"{_INSTALL} (there is no {' and no '.join(missing)})")
    from polyopt.lab.server import listening_socket

    begin = _beginning(points)
    listening = listening_socket(port)
    tell("the lab has ended")
    with listening:
        say("The first solve compiles, which may take a quarter of a minute the first time.")
        _warm(begin)
        try:
            _serve(listening, begin, browser)
        except Terminated:
            raise
        except KeyboardInterrupt:
            pass
    say("The lab has ended.")


def _beginning(points: str | None) -> dict[str, Any]:
    from polyopt.lab.sets import beginning, points_of, state_of

    if points is None:
        return beginning()
    from polyopt.cli.data import load_data

    return state_of(points_of(load_data(points))["points"])


def _warm(begin: dict[str, Any]) -> None:
    """Solve the first state, with each kernel, so that the page opens warm."""
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
