import json, pathlib
from tests.e2e.test_several_hosts import *
from tests.e2e.conftest import *
async def test_dbg(sandbox, environment):
    async with served(environment) as server:
        await server.call("whoami")
        said = await sandbox.say("alice", "do you hear me?")
        await server.next_push()
        await beats(sandbox, 2)
        (entry,) = await shown(server)
        assert inbox(await server.call_raw("audit_log", action="test", resource="test")) == []
        assert await server.stop() == 0
        print(server.stderr)
    for f in pathlib.Path(environment["ENTRABOT_DATA_DIR"]).rglob("*.json"): print(f, f.read_text()[:900])
