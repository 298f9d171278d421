"""A browser without a window, spoken to through a pipe: pages as a person would see them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from select import select
from typing import Any
from urllib.parse import unquote

from helpers.chromium import find_browser

PATIENCE = 60.0  # seconds that one answer may take


class Browser:
    """One page after the other in Chromium, which keeps what it keeps in a folder."""

    def __init__(self, folder: Path):
        self._orders_read, self._orders = os.pipe()
        self._answers, self._answers_write = os.pipe()
        command = [
            find_browser() or "chromium", "--headless=new", "--remote-debugging-pipe",
            f"--user-data-dir={folder}",
            "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
            "--disable-background-networking", "--disable-component-update", "about:blank",
        ]  # fmt: skip
        joined = f'exec "$@" 3</dev/fd/{self._orders_read} 4>/dev/fd/{self._answers_write}'
        self._process = subprocess.Popen(
            ["sh", "-c", joined, "sh", *command],
            pass_fds=(self._orders_read, self._answers_write),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(self._orders_read)
        os.close(self._answers_write)
        self._buffer, self._number, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        targets = self.ask("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._orders)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._answers)

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What the browser answers to one order of its protocol."""
        self._number += 1
        order = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            order["sessionId"] = self._session
        os.write(self._orders, json.dumps(order).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']['message']}")
                return message["result"]
            self.events.append(message)

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select([self._answers], [], [], PATIENCE)
            piece = os.read(self._answers, 1 << 16) if ready else b""
            if not piece:
                raise RuntimeError("the browser does not answer")
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def open(self, path: Path, *, width: int = 1280, media: str = "screen", scheme: str = "light") -> None:
        """Show a file at this width, on the screen or as printed, in the light or the dark."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1,
                 mobile=False)  # fmt: skip
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.ask("Emulation.setEmulatedMedia", media=media, features=features)
        self.events.clear()
        self.ask("Page.navigate", url=path.absolute().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._message())

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript is on the page."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"]["description"])
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        code = {"Enter": 13, " ": 32, "Tab": 9}[key]
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, text=text)

    def requests(self) -> list[str]:
        """Addresses that the page asked for since it was opened."""
        sent = [event for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [unquote(event["params"]["request"]["url"]) for event in sent]

    def complaints(self) -> list[str]:
        """Errors and warnings that the page left on the console since it was opened."""
        kinds = ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")
        return [json.dumps(event["params"]) for event in self.events if event["method"] in kinds]
