"""The lab's server: a page and its messages, for this machine's own browser alone.

Whoever has not the token gets nothing: it is in the link that the command prints, and in a cookie from
then on. A request whose Host is another's name is refused, as it comes from a page of that name whose address
was changed to this machine's; so is a WebSocket, or any request that says where it comes from, of another
page than the lab's own. No file is read but those of the page, which are read once.
"""

import asyncio
import json
import os
import secrets
import socket
from collections.abc import Mapping
from importlib import resources
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from polyopt.lab.engine import MAX_BYTES, Engine

HOST = "127.0.0.1"
MAX_CLIENTS = 8
_KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_REFUSED = "This is the lab of another session. Open it by the link that 'polyopt lab' has printed.\n"


class _Guard:
    """Refuses what comes from other names and other pages, and says to browsers what the page may do."""

    def __init__(self, app: ASGIApp, port: int):
        self._app = app
        self._hosts = {f"{name}:{port}" for name in (HOST, "localhost")}
        self._origins = {f"http://{host}" for host in self._hosts}
        links = " ".join(sorted(f"ws://{host}" for host in self._hosts))
        policy = (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
            f"connect-src 'self' {links}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        self._headers = [
            (b"content-security-policy", policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"x-frame-options", b"DENY"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cache-control", b"no-store"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *self._headers]
            await send(message)

        if self._may(scope):
            await self._app(scope, receive, guarded)
        elif scope["type"] == "http":
            await PlainTextResponse(_REFUSED, 403)(scope, receive, guarded)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": "refused"})

    def _may(self, scope: Scope) -> bool:
        told: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            told.setdefault(name, []).append(value.decode("latin-1"))
        host, origin = told.get(b"host", []), told.get(b"origin", [])
        if len(host) != 1 or host[0] not in self._hosts or len(origin) > 1:
            return False
        if scope["type"] == "websocket" and not origin:
            return False
        return not origin or (origin[0] in self._origins and origin[0] == f"http://{host[0]}")


def lab_app(port: int, token: str, begin: Mapping[str, Any] | None = None) -> ASGIApp:
    """Make the application, which answers browsers that have the token."""
    files = page_files()
    cookie = f"polyopt-lab-{port}"  # cookies are shared between the ports of a machine
    clients: set[Engine] = set()

    def knows(connection: HTTPConnection) -> bool:
        return secrets.compare_digest(connection.cookies.get(cookie, "").encode(), token.encode())

    async def page(request: Request) -> Response:
        given = request.query_params.get("token")
        if given is not None and secrets.compare_digest(given.encode(), token.encode()):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(cookie, token, httponly=True, samesite="lax", path="/")
            return answer
        if not knows(request):
            return PlainTextResponse(_REFUSED, 403)
        return Response(files["index.html"], media_type="text/html")

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        kind = _KINDS.get(name.rpartition(".")[2])
        if not knows(request):
            return PlainTextResponse(_REFUSED, 403)
        if name not in files or kind is None:
            return PlainTextResponse("There is no such file.\n", 404)
        return Response(files[name], media_type=kind)

    async def talk(line: WebSocket) -> None:
        if not knows(line) or len(clients) >= MAX_CLIENTS:
            await line.close(1008)
            return
        await line.accept()
        await _serve_client(line, begin, clients)

    routes = [Route("/", page), Route("/static/{name}", static), WebSocketRoute("/ws", talk)]
    return _Guard(Starlette(routes=routes), port)


def page_files() -> dict[str, bytes]:
    """Return the files of the page by name."""
    folder = resources.files("polyopt.lab") / "static"
    if not (folder / "index.html").is_file():
        raise ValueError("the lab's page is missing: install polyopt anew")
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


async def _serve_client(line: WebSocket, begin: Mapping[str, Any] | None, clients: set[Engine]) -> None:
    """Answer one client until it goes."""
    loop = asyncio.get_running_loop()
    outgoing: asyncio.Queue[str] = asyncio.Queue()

    def send(message: dict[str, Any]) -> None:
        text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        if not loop.is_closed():
            loop.call_soon_threadsafe(outgoing.put_nowait, text)

    async def write() -> None:
        while True:
            await line.send_text(await outgoing.get())

    engine = Engine(send, begin)
    clients.add(engine)
    writer = asyncio.create_task(write())
    try:
        while True:
            message = await line.receive()
            if message["type"] == "websocket.disconnect":
                break
            text = message.get("text")
            engine.receive(message.get("bytes") if text is None else text)
    except WebSocketDisconnect:
        pass
    finally:
        writer.cancel()
        engine.close()
        clients.discard(engine)


def listening_socket(port: int) -> socket.socket:
    """Return a socket of this machine alone, at a port or, for 0, at any that is free."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere it would let two programs listen at one port
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((HOST, port))
        found.listen()
    except OSError as error:
        found.close()
        text = error.strerror or str(error)
        why = f"cannot be had ({text}); --port 0 takes a free one"
        raise ValueError(f"port {port} of this machine {why}") from None
    return found


def serve(app: ASGIApp, listening: socket.socket) -> None:
    """Serve an application until Ctrl-C, or SIGTERM."""
    settings = uvicorn.Config(
        app, log_level="error", access_log=False, lifespan="off", ws_max_size=4 * MAX_BYTES,
        ws="websockets-sansio", timeout_graceful_shutdown=2, server_header=False, date_header=False,
        proxy_headers=False,
    )  # fmt: skip
    uvicorn.Server(settings).run(sockets=[listening])
