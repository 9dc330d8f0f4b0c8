"""Sessions on one folder, with one clock."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.host.delivery.parts import CHAT, Clock, Session

Open = Callable[..., Session]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def launch(tmp_path: Path, clock: Clock) -> AsyncIterator[Open]:
    made: list[Session] = []

    def make(push: str = "on", client: str = "") -> Session:
        made.append(Session(tmp_path, clock, push, client))
        return made[-1]

    yield make
    for session in made:
        await session.close()


@pytest.fixture
async def claude(launch: Open) -> Session:
    """Claude Code, of which nothing is known but its name."""
    session = launch("auto", "claude-code")
    await session.inbox.position(CHAT)
    return session


@pytest.fixture
def copilot(launch: Open) -> Session:
    """A host without pushes."""
    return launch("auto", "github-copilot-developer")
