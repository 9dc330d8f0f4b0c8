"""The server's end: turns calls into copies and writes them to the relay, without ever waiting for it."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from entrabot_efferent_copy.channel import State, describe
from entrabot_efferent_copy.peers import SINKS, Candidates, Choice, candidates, shown
from entrabot_efferent_copy.redaction import failure, safe_copy
from entrabot_efferent_copy.relay_process import RelayProcess
from entrabot_host import Health, ToolCall, ToolResult

LARGEST_COPY: Final = 16 * 1024 * 1024
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_WARN_SECONDS = 60.0
_LIVE = State.LIVE.value
_NOT_AN_OBSERVER = State.NOT_AN_OBSERVER.value
_KNOWN = frozenset({_LIVE, _NOT_AN_OBSERVER})


class Copier:
    """Copies calls to the observers that the operator chose, once there are any."""

    def __init__(self, choice: Choice, log: logging.Logger) -> None:
        self._choice = choice
        self._log = log
        self._found: Candidates | None = None
        self._relay: RelayProcess | None = None
        self._reports: dict[str, dict[str, Any]] = {}
        self._dropped = 0
        self._warned = 0.0
        self._announced: set[str] = set()
        self.listening = False
        """Whether any observer is there to be told."""

    # --- calls ------------------------------------------------------------------------------------------------------

    def copied(self, tool_name: str, call: ToolCall) -> ToolCall:
        """Wrap a tool's call. Its result and its exceptions pass unchanged."""

        async def observed(**arguments: Any) -> Any:
            if not self.listening:
                return await call(**arguments)
            begun = self._begin(tool_name, arguments)
            try:
                result = await call(**arguments)
            except BaseException as error:
                self._end(begun, partial(failure, error))
                raise
            self._end(begun, partial(_data, result))
            return result

        return observed

    def _begin(self, tool_name: str, arguments: dict[str, Any]) -> bytes:
        """Send the first copy and return its JSON, open at its end: the arguments as they were before the call."""
        head = b'{"tool_name":' + _json(tool_name) + b',"args":' + self._copy(lambda: arguments)
        self._write(head + b"}\n")
        return head

    def _end(self, begun: bytes, result: Callable[[], Any]) -> None:
        self._write(begun + b',"result":' + self._copy(result) + b"}\n")

    def _copy(self, value: Callable[[], Any]) -> bytes:
        try:
            return _json(safe_copy(value())[0])
        except Exception as error:  # a foreign object's own methods failed; that is no reason to fail the call
            self._warn(f"a part of a copy was left out: {describe(error)}")
            return _json({"value": f"<not copied: {type(error).__name__}>"})

    def _write(self, line: bytes) -> None:
        if self._relay is None or len(line) > LARGEST_COPY or not self._relay.write(line):
            self._dropped += 1
            self._warn(f"copies are dropped before they reach the relay, {self._dropped} so far")

    def _warn(self, text: str) -> None:
        now = time.monotonic()
        if not self._warned or now - self._warned >= _WARN_SECONDS:
            self._warned = now
            self._log.warning("%s", text)

    # --- life -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look for observers and keep the relay alive, in a task of its own."""
        owner = asyncio.create_task(self._run(), name="efferent-copy:relay")
        try:
            yield
        finally:
            self.listening = False
            owner.cancel()
            await asyncio.wait({owner})

    async def _run(self) -> None:
        self._found = await asyncio.to_thread(candidates, self._choice)
        pause = _FIRST_PAUSE
        while self._found.peers:
            started = time.monotonic()
            try:
                await self._relayed(self._found)
            except Exception as error:  # copies are never a reason to end the server
                self._log.warning("the relay of tool call copies ended and is started again: %s", describe(error))
            pause = _FIRST_PAUSE if time.monotonic() - started > _LONGEST_PAUSE else min(pause * 2, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _relayed(self, found: Candidates) -> None:
        """Run one relay to its end. Raises when that end was its own."""
        self._relay = relay = await RelayProcess.start()
        try:
            level = logging.getLevelName(self._log.getEffectiveLevel())
            relay.write(_json({"peers": [peer.to_dict() for peer in found.peers], "level": level}) + b"\n")
            async for line in relay.lines():
                self._heard(line)
            raise ConnectionError(relay.last_words() or "it said nothing")
        finally:
            self._relay, self.listening = None, False
            self._reports = {name: {**report, "state": State.RETRYING.value} for name, report in self._reports.items()}
            await relay.aclose()

    def _heard(self, line: dict[str, Any]) -> None:
        if "log" in line:
            level, text = line["log"]
            self._log.log(level, "%s", text)
            return
        self._reports[line["sink"]] = line
        self.listening = any(report["state"] == _LIVE or report["delivered"] for report in self._reports.values())
        self._announce()

    def _announce(self) -> None:
        """Once it is known of every candidate, say to whom calls are copied, and which named peer is no observer."""
        states = {name: report["state"] for name, report in self._reports.items()}
        if self._found is None or len(states) < len(self._found.peers) or State.CONNECTING.value in states.values():
            return
        new = {name: state for name, state in states.items() if name not in self._announced and state in _KNOWN}
        self._announced.update(new)
        if not self._choice.sinks and (live := [name for name, state in new.items() if state == _LIVE]):
            self._log.warning("every tool call is copied to %s. Set %s to choose.", shown(live), SINKS)
        for name in new:
            if new[name] == _NOT_AN_OBSERVER:
                level = logging.WARNING if name in self._choice.sinks else logging.INFO
                self._log.log(level, "MCP server %s gets no copies: %s", shown([name]), self._reports[name]["problem"])

    # --- state ------------------------------------------------------------------------------------------------------

    async def health(self) -> Health:
        """Say who is told, and what became of the copies."""
        if self._found is None:
            return Health(True, "looking for observers")
        if not self._found.peers:
            return self._nobody(self._found)
        summary = "; ".join(self._line(peer.name) for peer in self._found.peers)
        if self._dropped:
            summary += f"; {self._dropped} copies dropped before they reached the relay"
        ailing = [name for name, report in self._reports.items() if _ails(report)]
        remedy = f"See why {shown(ailing)} does not answer; tool calls are not affected." if ailing else ""
        return Health(not ailing, summary, remedy)

    def _nobody(self, found: Candidates) -> Health:
        if found.passed_over:
            listed = f"{shown(found.passed_over)} in {found.file} are not trusted and get no copies"
            return Health(True, listed, f"To send copies to one, name it in {SINKS}.")
        return Health(True, "enabled, but no other MCP server is configured for it")

    def _line(self, name: str) -> str:
        report = self._reports.get(name)
        if report is None:
            return f"{shown([name])}: connecting"
        problem = f" ({report['problem']})" if report["problem"] else ""
        counts = ", ".join(f"{report[key]} {key}" for key in ("delivered", "dropped", "failed"))
        return f"{shown([name])}: {report['state']}{problem}, {counts}"


def _ails(report: dict[str, Any]) -> bool:
    return bool(report["state"] == State.RETRYING.value or report["failed_in_a_row"] >= 5)


def _data(result: Any) -> dict[str, Any]:
    """A result as observers get it, not yet redacted: images are told of, not sent."""
    if isinstance(result, ToolResult):
        if not result.images:
            return _data(result.data)
        images = [{"media_type": image.media_type, "bytes": len(image.data)} for image in result.images]
        return {"value": result.data, "images": images}
    return result if isinstance(result, dict) else {"value": result}


def _json(value: Any) -> bytes:
    """Encode on one line. Halves of characters, which UTF-8 cannot hold, become question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
