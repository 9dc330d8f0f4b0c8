"""The first scene and the last: who the agent is, and what is on record."""

from __future__ import annotations

from entrabot_host.cli.demo.cast import Cast, Scene
from entrabot_host.cli.demo.stage import expect


async def _identity(cast: Cast) -> None:
    me = await cast.does("whoami")
    identity = me["identity"]
    rows = [
        ("signed in as", identity.get("user_principal_name", "nobody")),
        ("attribution", identity.get("attribution", "none")),
        ("agent identity", identity.get("agent_id", "")),
        ("sponsors", ", ".join(sorted(address for one in me["sponsors"] for address in one["addresses"][:1]))),
        ("plugins", ", ".join(plugin["name"] for plugin in me["plugins"].get("active", [])) or "none"),
    ]
    cast.stage.table(("", ""), rows)
    with cast.stage.promise("signed in by certificate in three hops, as the agent itself"):
        expect(identity.get("attribution") == "agent", str(identity.get("error", identity)))
        expect(bool(identity.get("verified_with_graph")), "Graph did not confirm the identity")
    with cast.stage.promise("its sponsors are known by object id"):
        expect(cast.sponsor["id"] in {one["object_id"] for one in me["sponsors"]}, "the sponsor is not listed")


async def _records(cast: Cast) -> None:
    await cast.does("audit_log", "…", action="demo.end", resource="the demo")
    lines = await cast.audit_lines()
    outcomes = [line for line in lines if line["outcome"] != "pending"]
    cast.stage.table(
        ("time", "action", "outcome", "attributed to"),
        [
            (
                line["timestamp"][11:19],
                line["action"],
                line["outcome"],
                f"{line['attribution_type']} {line['agent_id'][:8]}…",
            )
            for line in outcomes
        ],
    )
    with cast.stage.promise("each deed was written down before it was done, and again with its outcome"):
        announced = [line["action"] for line in lines if line["outcome"] == "pending"]
        done = [line["action"] for line in outcomes]
        expect(all(done.count(action) >= announced.count(action) for action in announced), "an outcome is missing")
        expect(all(line["attribution_type"] == "agent" for line in lines), "a deed is not the agent's")
        expect("demo.end" in done, "a deed is missing")


IDENTITY = Scene("The agent has an identity of its own", frozenset({"whoami"}), _identity)
RECORDS = Scene("On the record", frozenset({"audit_log"}), _records)
