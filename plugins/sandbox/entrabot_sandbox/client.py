"""A client for tests and demonstrations: starts a sandbox as a child process and speaks to its control API."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from entrabot_sandbox.sign_in_client import SignInCalls

if TYPE_CHECKING:
    import anyio.abc
    import httpx

Json = dict[str, Any]


class SandboxError(Exception):
    """The sandbox did not start, can't be reached, or refused a control call."""


class ControlClient(SignInCalls):
    """The control API. People are named by key, UPN, mail address or object id."""

    def __init__(self, url: str, token: str, ca_bundle: str) -> None:
        import httpx

        self.control_url = url
        self._ca_bundle = ca_bundle
        self._http: httpx.AsyncClient = httpx.AsyncClient(
            headers={"Authorization": f"Bearer {token}"},
            verify=ssl.create_default_context(cafile=ca_bundle),
            trust_env=False,
            timeout=httpx.Timeout(15.0, read=90.0),
        )

    @classmethod
    @asynccontextmanager
    async def of(cls, control: Mapping[str, str]) -> AsyncIterator[ControlClient]:
        """A client for the ``control`` part of what a sandbox prints; closed at the end of the block."""
        client = ControlClient(control["url"], control["token"], control["ca_bundle"])
        try:
            yield client
        finally:
            await client.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def call(self, method: str, path: str, body: Json | None = None, **query: Any) -> Any:
        """Make any control call; returns its JSON. Raises SandboxError with the API's own message."""
        import httpx

        params = {name: value for name, value in query.items() if value is not None}
        try:
            response = await self._http.request(method, self.control_url + path, json=body, params=params or None)
        except httpx.HTTPError as error:
            raise SandboxError(f"The sandbox can't be reached: {type(error).__name__}") from error
        if response.is_error:
            raise SandboxError(_message_of(response))
        return response.json()

    # People speaking

    async def say(
        self,
        person: str,
        text: str | None = None,
        *,
        html: str | None = None,
        chat: str | None = None,
        reply_to: str | None = None,
        mention: Iterable[str] = (),
        image: bytes | None = None,
        image_type: str = "image/png",
    ) -> Json:
        """Say something; without a chat, in the person's 1:1 with the agent. Returns the chatMessage."""
        body: Json = {"as": person, "mention": list(mention)}
        body |= _given(text=text, html=html, chat=chat, reply_to=reply_to)
        if image is not None:
            body |= {"image": base64.b64encode(image).decode(), "image_type": image_type}
        return await self._json("POST", "/say", body)

    async def edit(
        self, person: str, chat: str, message: str, text: str | None = None, *, html: str | None = None
    ) -> Json:
        """Edit one of the person's own messages. Returns the chatMessage."""
        body = {"as": person, **_given(text=text, html=html)}
        return await self._json("PATCH", f"{_chat(chat)}/messages/{message}", body)

    async def delete(self, person: str, chat: str, message: str) -> Json:
        """Delete one of the person's own messages. Returns the chatMessage."""
        return await self._json("DELETE", f"{_chat(chat)}/messages/{message}", {"as": person})

    async def react(self, person: str, chat: str, message: str, reaction: str = "like") -> Json:
        """React to a message. Returns the chatMessage."""
        body = {"as": person, "reaction": reaction}
        return await self._json("POST", f"{_chat(chat)}/messages/{message}/reactions", body)

    async def create_chat(
        self, person: str, members: Iterable[str], *, topic: str | None = None, type: str | None = None
    ) -> Json:
        """Start a chat: 1:1 with one other person, else a group. Returns the chat with its members."""
        body = {"as": person, "members": list(members), **_given(topic=topic, type=type)}
        return await self._json("POST", "/chats", body)

    async def rename(self, person: str, chat: str, topic: str | None) -> Json:
        """Change a group chat's topic. Returns the chat."""
        return await self._json("PATCH", _chat(chat), {"as": person, "topic": topic})

    async def add_member(self, person: str, chat: str, newcomer: str, *, history: bool = False) -> Json:
        """Let somebody in, with or without what was said before. Returns the chat."""
        body = {"as": person, "person": newcomer, "history": history}
        return await self._json("POST", f"{_chat(chat)}/members", body)

    async def remove_member(self, person: str, chat: str, leaver: str) -> Json:
        """Show somebody out. Returns the chat."""
        return await self._json("DELETE", f"{_chat(chat)}/members/{quote(leaver, safe='')}", {"as": person})

    async def chats(self, person: str | None = None) -> list[Json]:
        """All chats, or one person's."""
        return list((await self.call("GET", "/chats" + (f"?as={quote(person, safe='')}" if person else "")))["value"])

    async def messages(
        self, chat: str, *, after: str | None = None, sender: str | None = None, wait: float = 0
    ) -> list[Json]:
        """A chat's messages, oldest first; with ``wait``, up to that many seconds for there to be any."""
        found = await self.call("GET", f"{_chat(chat)}/messages", after=after, sender=sender, wait=wait)
        return list(found["value"])

    async def wait_for_message(
        self, chat: str, *, sender: str = "agent", after: str | None = None, timeout: float = 10
    ) -> Json:
        """The first message of that sender after the given one. Raises SandboxError when none comes in time."""
        found = await self.messages(chat, after=after, sender=sender, wait=timeout)
        if not found:
            raise SandboxError(f"No message of {sender} within {timeout} seconds.")
        return found[0]

    # Documents

    async def create_document(
        self,
        person: str,
        name: str,
        text: str | None = None,
        *,
        html: str | None = None,
        drive: str | None = None,
        share_with: Iterable[str] = (),
    ) -> Json:
        """Write a Word document as somebody, in a site's library unless another drive is named.

        Returns its ``name``, ``drive_id``, ``item_id``, ``url`` (a sharing link) and ``web_url``.
        """
        body: Json = {"as": person, "name": name, "share_with": list(share_with)}
        return await self._json("POST", "/documents", body | _given(text=text, html=html, drive=drive))

    async def document(self, document: Json) -> Json:
        """A document with its ``text`` and ``comments``, named by ``drive_id`` and ``item_id``."""
        return dict(await self.call("GET", "/documents", **_ids(document)))

    async def comment(self, person: str, document: Json, text: str, *, reply_to: str | None = None) -> Json:
        """Comment on a document as somebody, or reply to a comment in it. Returns the comment."""
        return await self._json(
            "POST", "/comments", {"as": person, "text": text, **_ids(document), **_given(reply_to=reply_to)}
        )

    async def comments(self, document: Json) -> list[Json]:
        """The threads of a document: comments, oldest first, each with its ``replies``."""
        return list((await self.call("GET", "/comments", **_ids(document)))["value"])

    async def wait_for_comment(
        self, document: Json, *, author: str = "agent", after: str | None = None, timeout: float = 10
    ) -> Json:
        """The author's first comment or reply after the given one. Raises SandboxError when none comes in time."""
        query = {**_ids(document), "author": author, "after": after, "wait": timeout}
        found = list((await self.call("GET", "/comments", **query))["value"])
        if not found:
            raise SandboxError(f"No comment of {author} within {timeout} seconds.")
        return dict(found[0])

    async def work_iq(self, **settings: Any) -> Json:
        """Change tool_names, replies, metadata_keys, comment_ids, failures, sessions. Returns all, and the servers."""
        return await self._json("PUT", "/work-iq", settings)

    async def set_persona(self, text: str) -> None:
        """Change what the persona server says."""
        await self.call("PUT", "/persona", {"text": text})

    # The tenancy

    async def state(self) -> Json:
        """Tenants, people, sponsors, grants, settings, faults, clock."""
        return await self._json("GET", "/state")

    async def add_person(
        self, key: str, name: str, *, tenant: str = "contoso", mail: str | None = None, guest: bool = False
    ) -> Json:
        """Add somebody; ``guest`` makes a guest object in the agent's tenant too. Returns the person."""
        body = {"key": key, "name": name, "tenant": tenant, "guest": guest, **_given(mail=mail)}
        return await self._json("POST", "/people", body)

    async def invite(self, person: str) -> Json:
        """Make a guest object for somebody of another tenant. Returns the person."""
        return await self._json("POST", "/guests", {"person": person})

    async def add_tenant(self, key: str, name: str, domain: str) -> Json:
        """Add a tenant. Returns it."""
        return await self._json("POST", "/tenants", {"key": key, "name": name, "domain": domain})

    async def add_domain(self, tenant: str, domain: str) -> Json:
        """Add a verified domain to a tenant. Returns the tenant."""
        return await self._json("POST", "/domains", {"tenant": tenant, "domain": domain})

    async def add_group(self, name: str) -> Json:
        """Add a group to the agent's tenant. Returns ``{"id", "name"}``."""
        return await self._json("POST", "/groups", {"name": name})

    async def add_blueprint(self, name: str) -> Json:
        """Add another blueprint with an agent identity and an agent user. Returns their ids and ``cert_file``."""
        return await self._json("POST", "/blueprints", {"name": name})

    async def set_sponsors(self, sponsors: Iterable[str]) -> Json:
        """Make these people and groups the agent's sponsors."""
        return await self._json("PUT", "/sponsors", {"sponsors": list(sponsors)})

    async def grant(self, resource: str = "graph", *, app: str = "agent", **granted: list[str] | None) -> Json:
        """Set ``scopes`` (None: no consent) and ``roles`` at ``graph``, ``storage``, ``word``, ...

        app: ``agent``, or ``delegated``, the application that people sign in to themselves.
        """
        return await self._json("PUT", "/grants", {"resource": resource, "app": app, **granted})

    async def reset(self) -> None:
        """Start over; ids, keys and access tokens stay."""
        await self.call("POST", "/reset")

    # Troubles

    async def fault(self, kind: str, **details: Any) -> Json:
        """Add a fault: ``latency``, ``status``, ``drop_before`` or ``drop_after``. Returns it with its id."""
        return await self._json("POST", "/faults", {"kind": kind, **details})

    async def faults(self) -> list[Json]:
        """The faults in force, with their hits."""
        return list((await self.call("GET", "/faults"))["faults"])

    async def clear_faults(self) -> None:
        """Remove every fault."""
        await self.call("DELETE", "/faults")

    async def expire_tokens(self, *, all: bool = False) -> None:
        """Make every access token (``all``: also T1, T2 and refresh tokens) an expired one."""
        await self.call("POST", "/tokens/expire", {"all": all})

    async def settings(self, **settings: Any) -> Json:
        """Change settings; returns all.

        They are ordering_taken, federated_addresses, throttling, visibility_delay, token_lifetime, refresh_rotation,
        device_interval and user_consent.
        """
        return await self._json("PUT", "/settings", settings)

    async def set_clock(self, offset: float) -> None:
        """Set the service's clock that many seconds off."""
        await self.call("PUT", "/clock", {"offset": offset})

    async def requests(self, since: int = 0) -> list[Json]:
        """The requests the services answered, oldest first."""
        return list((await self.call("GET", "/requests", since=since))["requests"])

    async def counts(self) -> dict[str, int]:
        """How often each ``METHOD /path`` was asked."""
        return dict((await self.call("GET", "/requests", since=2**60))["counts"])

    async def clear_requests(self) -> None:
        """Forget the requests noted so far."""
        await self.call("DELETE", "/requests")

    async def _json(self, method: str, path: str, body: Json | None = None) -> Json:
        return dict(await self.call(method, path, body))


class Sandbox(ControlClient):
    """A sandbox running as a child process.

    ``environment`` is what a server needs, ``people`` describes everybody by key, ``control`` is the way to the
    control API, ``persona`` that to the persona server, ``delegated`` what people sign in to themselves.
    """

    def __init__(self, announcement: Json, process: anyio.abc.Process) -> None:
        control = announcement["control"]
        super().__init__(control["url"], control["token"], control["ca_bundle"])
        self.environment: dict[str, str] = announcement["environment"]
        self.people: dict[str, Json] = announcement["people"]
        self.control: dict[str, str] = control
        self.persona: dict[str, str] = announcement["persona"]
        self.delegated: dict[str, str] = announcement["delegated"]
        self.process = process

    @classmethod
    @asynccontextmanager
    async def start(cls, *, port: int = 0, timeout: float = 30.0) -> AsyncIterator[Sandbox]:
        """Start one for the length of a block. Raises SandboxError when it isn't up within the timeout (seconds)."""
        import anyio

        command = [sys.executable, "-m", "entrabot_sandbox", "--json", "--port", str(port)]
        process = await anyio.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None)
        try:
            sandbox = cls(await _announcement(process, timeout), process)
            try:
                yield sandbox
            finally:
                await sandbox.aclose()
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)


async def _announcement(process: anyio.abc.Process, timeout: float) -> Json:
    import anyio
    from anyio.streams.buffered import BufferedByteReceiveStream

    assert process.stdout is not None
    try:
        with anyio.fail_after(timeout):
            line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 1 << 20)
    except TimeoutError as error:
        raise SandboxError(f"The sandbox was not up within {timeout} seconds.") from error
    except (anyio.EndOfStream, anyio.IncompleteRead) as error:
        raise SandboxError("The sandbox ended at once; its standard error says why.") from error
    return dict(json.loads(line))


async def _end(process: anyio.abc.Process) -> None:
    import anyio

    assert process.stdin is not None
    await process.stdin.aclose()
    with anyio.move_on_after(5) as scope:
        await process.wait()
    if scope.cancelled_caught:
        process.kill()
        await process.wait()
    await process.aclose()


def _chat(chat: str) -> str:
    return f"/chats/{quote(chat, safe='')}"


def _ids(document: Json) -> Json:
    return {name: document[name] for name in ("drive_id", "item_id")}


def _given(**values: Any) -> Json:
    return {name: value for name, value in values.items() if value is not None}


def _message_of(response: httpx.Response) -> str:
    try:
        message = response.json()["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = f"status {response.status_code}"
    return f"The sandbox refused: {message}"
