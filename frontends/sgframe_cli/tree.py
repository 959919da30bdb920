"""``sgframe tree``: the hot prefixes of a running server, drawn as a tree."""

from __future__ import annotations

from collections.abc import Iterator

import click
import httpx
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sgframe.errors import SgframeError
from sgframe_openai.cached_tree import CachedTree, TreeNode

TIMEOUT = 30.0
"""Seconds; a large cache takes a moment to describe."""
PIPED_WIDTH = 1000
"""Columns where there is no terminal: nothing is cut off."""


@click.command()
@click.option("--url", default="http://127.0.0.1:30000", show_default=True, help="The running server.")
@click.option("--api-key", envvar="SGFRAME_API_KEY", help="The server's key.  [env: SGFRAME_API_KEY]")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="Most prefixes to show.")
def tree(url: str, api_key: str | None, limit: int) -> None:
    """Show the prefixes that a running server's cache holds, those that saved most computation first.

    The server must have been started with --debug-tree lengths or text.
    """
    found = fetch(url.rstrip("/"), api_key, limit)
    shown = sum(node.tokens for node in found.nodes)
    click.echo(
        f"{url}: cache {found.cache}, {len(found.nodes):,} of {found.total_nodes:,} prefixes shown, "
        f"{shown:,} of {found.total_tokens:,} tokens"
    )
    if found.nodes:
        console = Console()
        if not console.is_terminal:
            console.width = PIPED_WIDTH
        console.print(_table(found.nodes))


def fetch(url: str, api_key: str | None, limit: int) -> CachedTree:
    """Ask the server at ``url``. Raises SgframeError: what is wrong with it, with the key or with the settings."""
    headers = {} if api_key is None else {b"Authorization": b"Bearer " + api_key.encode()}
    try:
        answer = httpx.get(f"{url}/debug/tree", params={"limit": limit}, headers=headers, timeout=TIMEOUT)
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:  # the last for what is no host's name: a..b
        raise SgframeError(
            f"no server answers at {url} ({error}); start one by sgframe serve --debug-tree lengths, or name it by --url"
        ) from None
    try:
        if answer.is_success:
            return msgspec.json.decode(answer.content, type=CachedTree)
        message: str = answer.json()["error"]["message"]
    except (ValueError, LookupError, TypeError):
        raise SgframeError(
            f"{url} answers, but not as sgframe does (status {answer.status_code}); is it one?"
        ) from None
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        message = f"{message.partition(';')[0]}; give it by --api-key or the variable SGFRAME_API_KEY"
    raise SgframeError(f"{url}: {message}")


def _table(nodes: list[TreeNode]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("TOKENS", "HITS", "REUSED", "LOCKS", "AGE/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("PREFIX", no_wrap=True, overflow="ellipsis")
    for guide, node in drawn(nodes):
        numbers = (f"{number:,}" for number in (node.tokens, node.hits, node.reused, node.locks))
        table.add_row(*numbers, f"{node.age:,.1f}", Text(guide + _name(node)), style="bold" if node.locks else None)
    return table


def _name(node: TreeNode) -> str:
    """The text, if the server tells it, with what a terminal would obey escaped; and whose it is, at the top."""
    name = f"#{node.id}" if node.text is None else repr(node.text)
    tags = "".join(f" [{tag} {digest}]" for tag, digest in node.namespace.items())
    return name + tags if node.parent is None else name


def drawn(nodes: list[TreeNode]) -> Iterator[tuple[str, TreeNode]]:
    """(guide line, node), depth first, siblings in the order of ``nodes``. An only child stands below its parent
    without a further indent, so that long chains stay readable."""
    children: dict[int | None, list[TreeNode]] = {}
    for node in nodes:
        children.setdefault(node.parent, []).append(node)
    stack = _guided("", children.get(None, []))
    while stack:
        guide, inner, node = stack.pop()
        yield guide, node
        stack += _guided(inner, children.get(node.id, []))


def _guided(lead: str, siblings: list[TreeNode]) -> list[tuple[str, str, TreeNode]]:
    """(guide line, that of what stands below, node), the last sibling first."""
    if len(siblings) == 1:
        return [(lead + "· ", lead, siblings[0])]
    guided = [(lead + "├ ", lead + "│ ", node) for node in siblings]
    if guided:
        guided[-1] = (lead + "└ ", lead + "  ", siblings[-1])
    return guided[::-1]
