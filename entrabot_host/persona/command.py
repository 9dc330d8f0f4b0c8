"""The token command: run without a shell, in a process group of its own that ends with it."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from entrabot_host.lifecycle import Child
from entrabot_host.persona.failure import TokenMintFailed

SECONDS: Final = 30.0
_MOST_BYTES: Final = 64 * 1024
_REST_SECONDS: Final = 0.5
_TOKEN: Final = re.compile(rb"[!-~]{1,16384}")


async def token_from(command: str, children: set[Child], *, seconds: float = SECONDS) -> str:
    """Run the command and return the token that it prints.

    While it runs it stands in ``children``, so that whoever ends this process ends it too. Raises `TokenMintFailed`,
    which tells the exit status and nothing that was printed.
    """
    try:
        group = CommandGroup(_words(command))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise TokenMintFailed(f"The token command could not be started: {reason}.") from None
    children.add(group)
    try:
        async with asyncio.timeout(seconds):
            printed = await group.output(_MOST_BYTES)
            status = await group.ended()
    except TimeoutError:
        raise TokenMintFailed(f"The token command did not end within {seconds:g} seconds and was killed.") from None
    finally:
        group.close()
        children.discard(group)
    if status:
        how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
        raise TokenMintFailed(f"The token command {how}.")
    token = printed.strip()
    if not token:
        raise TokenMintFailed("The token command printed nothing.")
    if not _TOKEN.fullmatch(token):
        raise TokenMintFailed("The token command printed something other than one token.")
    return token.decode("ascii")


class CommandGroup:
    """A running command and all that it starts. Implements `entrabot_host.lifecycle.Child`.

    It works in the home folder: the host program chooses ours, and a stranger's repository may hold programs and
    modules of the names that a command looks for.
    """

    def __init__(self, words: list[str]) -> None:
        self.stdin: Any = None
        self.returncode: Any = None
        receiving, giving = os.pipe()
        self._pipe = os.fdopen(receiving, "rb", buffering=0)
        self._closed = False
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the operator's own command, without a shell
                words,
                stdin=subprocess.DEVNULL,
                stdout=giving,
                stderr=subprocess.DEVNULL,
                cwd=_home(),
                start_new_session=True,
            )
        except BaseException:
            self._pipe.close()
            raise
        finally:
            os.close(giving)
        self._waiting = asyncio.ensure_future(asyncio.to_thread(self._process.wait))

    def poll(self) -> int | None:
        """Look whether it has ended; return its exit status then."""
        self.returncode = self._process.poll()
        return self._process.returncode

    def terminate(self) -> None:
        """Ask the whole group to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the whole group."""
        self._signal(signal.SIGKILL)

    async def ended(self) -> int:
        """Wait for the command's end, and end what it left running."""
        status = await asyncio.shield(self._waiting)
        self.kill()
        return status

    async def output(self, limit: int) -> bytes:
        """Return what it prints before it ends. Raises `TokenMintFailed` when that is more than ``limit`` bytes."""
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._pipe)

        def rest(_: asyncio.Future[int]) -> None:
            """End what it left running, which would keep the pipe open; what escaped into a session of its own may."""
            self.kill()
            loop.call_later(_REST_SECONDS, transport.close)

        self._waiting.add_done_callback(rest)
        printed = bytearray()
        try:
            while part := await reader.read(limit):
                printed += part
                if len(printed) > limit:
                    raise TokenMintFailed(f"The token command printed more than {limit // 1024} KiB.")
        finally:
            transport.close()
        return bytes(printed)

    def close(self) -> None:
        """End what still runs, at once; later signals reach nobody."""
        self.kill()
        self._closed = True
        self._pipe.close()

    def _signal(self, number: int) -> None:
        if not self._closed:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)


def _words(command: str) -> list[str]:
    """Split as a shell would; a file whose path holds spaces may stand there unquoted, by itself."""
    if Path(command).is_absolute() and Path(command).is_file():
        return [command]
    program, *arguments = shlex.split(command)
    return [str(Path(program).expanduser()) if program.startswith("~/") else program, *arguments]


def _home() -> Path:
    home = Path.home()
    return home if home.is_dir() else Path("/")
