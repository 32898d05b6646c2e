"""The MCP server: operations as tools over standard input and output (extra: mcp)."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from astrarium.errors import InputError, install_line
from astrarium.service.answer import Answer, Progress, Refusal, RefusedError
from astrarium.service.operations.study import key_of
from astrarium.service.tools import instructions, tools
from astrarium.service.workers import Call, Workers
from astrarium.version import version

if TYPE_CHECKING:
    from mcp import types
    from mcp.server import Server

__all__ = ["needed", "run_stdio", "server_of"]


def needed() -> None:
    """Raise InputError if the package is not installed."""
    try:
        import mcp.server.lowlevel  # noqa: F401
    except ImportError as error:
        raise InputError("mcp", f"needs {error.name or 'a package'}, which is not installed here",
                         expected=install_line("mcp")) from None


def server_of(workers: Workers) -> Server[Any]:
    """An MCP server whose tools are the operations of `workers`."""
    from mcp import types
    from mcp.server.lowlevel import Server

    listed = [types.Tool(name=each.name, description=each.description, input_schema=dict(each.schema),
                         annotations=types.ToolAnnotations(read_only_hint=each.reads, destructive_hint=not each.reads,
                                                           open_world_hint=False))
              for each in tools(workers.operations)]

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(context: Any, asked: types.CallToolRequestParams) -> types.CallToolResult:
        return await _called(workers, context.session, asked.name, asked.arguments or {})

    return Server("astrarium", version=version(), title="Astrarium", instructions=instructions(workers.limits),
                  on_list_tools=list_tools, on_call_tool=call_tool)


async def _called(workers: Workers, session: Any, name: str, request: Mapping[str, Any]) -> types.CallToolResult:
    """The result of a tool; a client that cancels ends the operation."""
    import anyio.from_thread
    import anyio.to_thread

    call = Call()

    def tell(progress: Progress) -> None:       # in the thread of the call
        with contextlib.suppress(Exception):        # of a client that has left
            anyio.from_thread.run(session.report_progress, progress.done, progress.total, progress.text)

    work = partial(workers.call, name, request, key=key_of(name, request), progress=tell, call=call)
    try:
        return _result(await anyio.to_thread.run_sync(work, abandon_on_cancel=True))
    except anyio.get_cancelled_exc_class():
        call.cancel()
        raise
    except RefusedError as error:
        return _refused(error.refusal)


def _result(answer: Answer) -> types.CallToolResult:
    from mcp import types

    plain = {"numbers": {each.name: {"value": each.value, "unit": each.unit} for each in answer.numbers},
             "found": answer.found, "notes": answer.notes, "files": answer.files, "command": answer.command,
             "cpu_seconds": answer.seconds, "text": answer.text}
    return types.CallToolResult(content=[types.TextContent(type="text", text=answer.text)],
                                structured_content=msgspec.to_builtins(plain))


KINDS: Mapping[str, str] = MappingProxyType({
    "input": "the request is wrong", "limit": "the request costs more than is allowed", "stopped": "the request ended",
    "bug": "a bug of Astrarium's; the request may be right"})


def _refused(refusal: Refusal) -> types.CallToolResult:
    """An error as the model reads it: what is wrong, and all parts of it as data."""
    from mcp import types

    return types.CallToolResult(is_error=True, structured_content=msgspec.to_builtins(refusal) | {"text": refusal.text},
                                content=[types.TextContent(type="text", text=f"{KINDS[refusal.kind]}\n{refusal.text}")])


async def run_stdio(workers: Workers) -> None:
    """Serve a client on standard input and output until it leaves."""
    from mcp.server.stdio import stdio_server

    server = server_of(workers)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())
