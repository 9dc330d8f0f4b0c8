"""Runs the demo: a sandbox tenant and the real server as child processes, and hosts played by the SDK's client."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TextIO

from entrabot_host.cli.demo.cast import Cast, Launch, Scene
from entrabot_host.cli.demo.conversation import CONVERSATION
from entrabot_host.cli.demo.identity import IDENTITY, RECORDS
from entrabot_host.cli.demo.stage import Stage
from entrabot_host.cli.demo.work import WORK
from entrabot_host.testing.agent import Agent
from entrabot_host.testing.process import launched
from entrabot_host.testing.tenant import Tenant

SCENES: tuple[Scene, ...] = (IDENTITY, *CONVERSATION, *WORK, RECORDS)
_WHOLE_DEMO_SECONDS = 180.0
_LIVELY: Mapping[str, str] = {
    "ENTRABOT_LIVE_POLL_SECONDS": "1",
    "ENTRABOT_TEAMS_WAIT_SECONDS": "6",
    "ENTRABOT_EMAIL_POLL_SECONDS": "5",
}
"""A demo is impatient: messages are looked for every second, and answers awaited for six."""


def run(*, svg: str = "", plugins: str = "") -> int:
    """Run the demo with the installed plugins, or those named; return 0 when every promise was kept."""
    stage = Stage(record=bool(svg))
    stage.title(
        "Entrabot", "An AI agent with an Entra identity of its own, in a sandbox tenant: nothing leaves this machine."
    )
    tenant = Tenant.start()
    chosen = {"ENTRABOT_PLUGINS": plugins} if plugins else {}
    with tempfile.TemporaryFile("w+", encoding="utf-8") as errlog:
        launch = partial(_launch, {**tenant.environment, **_LIVELY, **chosen}, errlog)
        try:
            left_out = asyncio.run(asyncio.wait_for(_play(stage, tenant, launch), _WHOLE_DEMO_SECONDS))
        except Exception as error:  # the SDK's client wraps whatever ends it into groups
            stage.console.print(f"\n[bold red]The demo failed:[/] {_first(error)}")
            errlog.seek(0)
            stage.console.print(errlog.read()[-4000:], markup=False, style="dim")
            return 1
        finally:
            tenant.stop()
    stage.console.print(f"\n[bold green]All {stage.kept} promises kept.[/]  Next: see README, “Point your host at it”.")
    if left_out:
        stage.console.print("Left out, since this server lacks the tools:", style="dim")
        for scene, missing in left_out.items():
            stage.console.print(f"  {scene} ({', '.join(missing)})", style="dim", markup=False)
    if svg:
        stage.console.save_svg(svg, title="entrabot demo")
    return 0


def _launch(environment: Mapping[str, str], errlog: TextIO, name: str) -> AbstractAsyncContextManager[Agent]:
    return launched(environment, name=name, errlog=errlog)


def _first(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


async def _play(stage: Stage, tenant: Tenant, launch: Launch) -> dict[str, list[str]]:
    """Play the scenes that this server has the tools for; return the others with the tools they lack."""
    left_out = {}
    async with launch("claude-code") as host:
        offered = frozenset(await host.tools())
        cast = Cast(stage, host, tenant, launch, offered)
        for scene in SCENES:
            if missing := scene.missing(offered):
                left_out[scene.title] = missing
                continue
            stage.scene(scene.title)
            await scene.play(cast)
    return left_out
