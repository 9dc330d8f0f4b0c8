"""Wrapping functions, and the tools of any `MCPServer`, so that every call is copied to observers."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from entrabot_efferent_copy.peers import SINKS, shown
from entrabot_efferent_copy.redaction import _collect_kwargs, _wrap_result, failure
from entrabot_efferent_copy.sinks import Sink, dispatch, payload_of

log = logging.getLogger(__name__)
OBSERVE: Final = "observe"
_MAIN_LOOP_UNSET: Final = object()
_MARK = "__efferent_copy__"


def wrap_tool_fn(
    sinks: list[Sink],
    tool_name: str,
    fn: Callable[..., Any],
    *,
    main_loop: asyncio.AbstractEventLoop | object | None = _MAIN_LOOP_UNSET,
) -> Callable[..., Any]:
    """Return ``fn`` with a copy to every sink before each call and another after it, or ``fn`` itself without sinks.

    What the caller gets, result or exception, is unchanged. A plain function stays one; called in a worker thread it
    hands its copies to ``main_loop``, by default the loop that runs now or that anyio's worker thread belongs to.
    Raises `ValueError` for the tool ``observe``.
    """
    if tool_name == OBSERVE:
        raise ValueError("The tool 'observe' is never wrapped: a copy of it would be observed in turn.")
    if not sinks:
        return fn
    call = _Calls(sinks, tool_name, fn, _Loop(main_loop))
    wrapped = _async_wrapper(fn, call) if _is_async(fn) else _sync_wrapper(fn, call)
    setattr(wrapped, _MARK, True)
    return wrapped


def install_into_fastmcp(mcp: Any, sinks: list[Sink], *, main_loop: asyncio.AbstractEventLoop | None = None) -> None:
    """Wrap every tool registered with an ``MCPServer`` but ``observe``. Does nothing without sinks.

    Call it once all tools are registered. In a running event loop the sinks connect at once. Tools wrapped by an
    earlier call are left alone.
    """
    if not sinks:
        return
    # The SDK has no public way to the function behind a tool that is registered already (middleware and extensions
    # see neither defaults nor raw results). So each tool object of the manager is kept, with its schema and its place
    # in the list, and gets another `fn`: a public field of it.
    for tool in mcp._tool_manager.list_tools():
        if tool.name != OBSERVE and not hasattr(tool.fn, _MARK):
            tool.fn = wrap_tool_fn(sinks, tool.name, tool.fn, main_loop=main_loop or _MAIN_LOOP_UNSET)
    if not os.environ.get(SINKS, "").strip():
        log.warning("every tool call is copied to: %s. Set %s to choose.", shown([s.name for s in sinks]), SINKS)
    if _running() is not None:
        for sink in sinks:
            sink.start()


class _Calls:
    """Makes and hands over the copies of one tool's calls. Never raises."""

    def __init__(self, sinks: list[Sink], tool_name: str, fn: Callable[..., Any], loop: _Loop) -> None:
        self._sinks = sinks
        self._tool_name = tool_name
        self._fn = fn
        self._loop = loop

    def begin(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Copy the arguments as they are before the call, which may change them."""
        try:
            copied = _collect_kwargs(self._fn, args, kwargs)
        except Exception as error:  # an argument's own methods failed; that is no reason to fail the call
            copied = {}
            log.warning("the arguments of %s cannot be copied: %s", self._tool_name, type(error).__name__)
        self._hand_over(copied)
        return copied

    def returned(self, args: dict[str, Any], result: Any) -> None:
        try:
            copied = _wrap_result(result)
        except Exception as error:  # a result's own methods failed; that is no reason to fail the call
            copied = {"value": f"<not copied: {type(error).__name__}>"}
        self._hand_over(args, copied)

    def failed(self, args: dict[str, Any], error: BaseException) -> None:
        try:
            copied = failure(error)
        except Exception:  # its own __str__ failed
            copied = {"error": "", "error_type": type(error).__name__}
        self._hand_over(args, copied)

    def _hand_over(self, args: dict[str, Any], result: dict[str, Any] | None = None) -> None:
        payload, size = payload_of(self._tool_name, args, result, finished=result is not None)
        self._loop.run(lambda: dispatch(self._sinks, payload, size))


class _Loop:
    """The event loop that the sinks live on."""

    def __init__(self, main_loop: Any) -> None:
        self._known = main_loop if isinstance(main_loop, asyncio.AbstractEventLoop) else None
        if main_loop is _MAIN_LOOP_UNSET:
            self._known = _running()

    def run(self, action: Callable[[], None]) -> None:
        """Run on the loop: now, if this is its thread, else soon."""
        running = _running()
        if running is not None and self._known in (None, running):
            self._known = running
            action()
        elif (loop := self._known or _loop_of_worker()) is not None and not loop.is_closed():
            self._known = loop
            loop.call_soon_threadsafe(action)
        elif running is not None:  # the loop we knew is gone
            self._known = running
            action()
        else:
            log.debug("a copy was dropped: it was made outside of any event loop")


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _loop_of_worker() -> asyncio.AbstractEventLoop | None:
    """Return the loop that this anyio worker thread works for."""
    import anyio.from_thread

    try:
        return anyio.from_thread.run_sync(asyncio.get_running_loop)
    except RuntimeError:
        return None


def _is_async(fn: Callable[..., Any]) -> bool:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004


def _async_wrapper(fn: Callable[..., Any], call: _Calls) -> Callable[..., Any]:
    @functools.wraps(fn)
    async def copied(*args: Any, **kwargs: Any) -> Any:
        arguments = call.begin(args, kwargs)
        try:
            result = await fn(*args, **kwargs)
        except BaseException as error:
            call.failed(arguments, error)
            raise
        call.returned(arguments, result)
        return result

    return copied


def _sync_wrapper(fn: Callable[..., Any], call: _Calls) -> Callable[..., Any]:
    @functools.wraps(fn)
    def copied(*args: Any, **kwargs: Any) -> Any:
        arguments = call.begin(args, kwargs)
        try:
            result = fn(*args, **kwargs)
        except BaseException as error:
            call.failed(arguments, error)
            raise
        call.returned(arguments, result)
        return result

    return copied
