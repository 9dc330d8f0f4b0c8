"""What a plugin says about a tool: the callable and the metadata from which the host secures it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

ToolData = dict[str, Any] | list[Any] | str | None
"""What a tool may return besides `ToolResult`: anything JSON can hold. Only the host turns it into text."""


@dataclass(frozen=True, kw_only=True)
class Hints:
    """The four MCP hints. All are required: a host decides by them whether to ask its user.

    read_only: changes nothing anywhere. destructive: may remove or overwrite what exists. idempotent: repeating the
    call with the same arguments changes nothing more. open_world: reaches outside this machine.
    """

    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool


@dataclass(frozen=True, kw_only=True)
class Audit:
    """How a call is written to the audit log, as one ``pending`` line before it and one with the outcome after.

    action: the name of the deed, ``"teams.send_message"``. resource: the name of the argument that says to what it
    was done, or a function from the validated arguments to that text.
    """

    action: str
    resource: str | Callable[[Mapping[str, Any]], str] = ""


@dataclass(frozen=True, kw_only=True)
class Outbound:
    """This tool sends text to people. Both are names of its arguments."""

    text: str
    conversation: str


@dataclass(frozen=True)
class Image:
    """An image for the model: raw bytes and their media type, ``image/png``."""

    data: bytes
    media_type: str


@dataclass(frozen=True)
class ToolResult:
    """Data with images. The data becomes the JSON text block, each image a block after it."""

    data: ToolData
    images: Sequence[Image] = ()


@dataclass(frozen=True)
class Tool:
    """One tool. ``fn`` is an async callable whose parameters, annotations and defaults are the tool's schema.

    Describe every parameter with ``Annotated[str, Field(description="...")]``. A parameter annotated `ToolContext` is
    filled in by the host and kept out of the schema.

    name: default is the callable's name. description: one or two sentences for the model; default is the docstring.
    permissions: Graph permissions the tool needs, for the permission list of a packaged subset.

    external: which fields of the result carry text from outside (``"text"``, ``"messages[].content"``). The host puts
    each into the external-content envelope. **Default**: every string of a result of an ``open_world`` tool;
    ``external=()`` says that none is.

    audit: default is to write one under the tool's name unless it is ``read_only``; ``audit=False`` switches it off.

    needs: capabilities without which the tool is not offered, each provided by some `BackgroundTask`.
    """

    fn: Callable[..., Awaitable[ToolData | ToolResult]]
    title: str = field(kw_only=True)
    hints: Hints = field(kw_only=True)
    name: str = field(default="", kw_only=True)
    description: str = field(default="", kw_only=True)
    permissions: tuple[str, ...] = field(default=(), kw_only=True)
    external: tuple[str, ...] | None = field(default=None, kw_only=True)
    audit: Audit | bool = field(default=True, kw_only=True)
    outbound: Outbound | None = field(default=None, kw_only=True)
    needs: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def tool_name(self) -> str:
        """The name under which the tool is offered."""
        return self.name or getattr(self.fn, "__name__", "")


class ToolContext(Protocol):
    """What a running call may know and say. Annotate a parameter with it to receive it."""

    @property
    def call_id(self) -> str:
        """Unique for this call; the audit log carries it."""
        ...

    @property
    def client_name(self) -> str:
        """The MCP host's name as it introduced itself, ``"claude-code"``; empty when it did not."""
        ...

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress. Does nothing when the client did not ask for it."""
        ...
