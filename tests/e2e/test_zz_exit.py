from __future__ import annotations
import asyncio
from pathlib import Path
from entrabot_sandbox.client import Sandbox
from tests.e2e.wire import served

async def test_exit(sandbox: Sandbox, environment: dict[str, str]) -> None:
    env = {**environment, "ENTRABOT_PUSH": "on"}
    first = None
    for n in range(6):
        async with served(env) as server:
            await server.call("whoami")
            if n:
                try:
                    again = await server.next_push(6)
                    print("AGAIN", n, again["meta"].get("redelivered"), again["meta"]["message_id"] == first["id"])
                    await asyncio.sleep(2)
                except TimeoutError:
                    print("quiet", n)
            first = await sandbox.say("bob", f"hello {n}")
            push = await server.next_push()
            print("PUSH", n, push["meta"].get("redelivered"), push["meta"]["message_id"] == first["id"])
        for f in Path(env["ENTRABOT_DATA_DIR"]).glob("chats/*.json"):
            print(f.read_text().replace("\n", ""))
        print(server.stderr[-600:] if False else "")
