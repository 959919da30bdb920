"""A page as its reader follows it: files are written, commands typed, all in one shell, and what is shown is what comes.

A block of Python, TOML, YAML or JSON whose first line is a comment with a name is that file; a block ``text`` shows what the
commands before it print, with ``…`` for what differs each time. A server that is not put into the background has a terminal
of its own: it runs until the next one is started, or the page ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from markdown_it import MarkdownIt
from pages import HOUSE, Block

MARK = "-- end of block --"
PORT = "30000"
"""Where servers are on the pages."""
_BEGIN = """\
server=
end_server() { if [ "$server" ]; then kill $server; wait $server; fi; }
"""
_SERVE = """\
end_server
{command} > server.log 2>&1 &
server=$!
until grep --quiet 'sgframe is ready' server.log; do kill -0 $server || {{ cat server.log; exit 1; }}; sleep 0.1; done
cat server.log
"""


def fences(page: str) -> list[Block]:
    """The fenced blocks of ``page``, wherever they stand, but for the site's own directives."""
    tokens = MarkdownIt().parse((HOUSE / page).read_text())
    found = [Block(token.info.strip(), token.content) for token in tokens if token.type == "fence"]
    return [block for block in found if not block.language.startswith("{")]


def file_name(block: Block) -> str:
    """What the first line calls the file that the block is; empty for none."""
    named = re.fullmatch(r"# (\S+\.(?:py|toml|yaml|json))", block.first_line)
    return named[1] if named else ""


def session(blocks: Sequence[Block], port: int) -> str:
    """What the reader types, with servers at ``port``."""
    typed = "".join(part for block in blocks for part in _typed(block))
    return f"{_BEGIN}{typed.replace(PORT, str(port))}end_server\n"


def _typed(block: Block) -> Iterator[str]:
    if name := file_name(block):
        yield f"mkdir -p $(dirname {name})\ncat > {name} <<'END OF FILE'\n{block.text}END OF FILE\n"
    elif block.language == "sh":
        serves = block.text.startswith("sgframe serve ") or block.text == "sgframe serve\n"
        own_terminal = serves and not block.text.rstrip().endswith("&")
        yield _SERVE.format(command=block.text.strip()) if own_terminal else block.text
        yield f"echo '{MARK}'\n"


def untyped(blocks: Sequence[Block]) -> list[Block]:
    """Blocks that a reader would neither type nor see printed."""
    after = dict(zip(map(id, blocks[1:]), blocks, strict=False))
    return [
        block
        for block in blocks
        if not (file_name(block) or block.language == "sh")
        and not (block.language == "text" and id(block) in after and after[id(block)].language == "sh")
    ]


def compare(blocks: Sequence[Block], printed: str, port: int) -> None:
    """Raises AssertionError where a block of commands has not ``printed`` what the page shows below it."""
    shown = [after.text if after.language == "text" else "" for after in [*blocks[1:], Block("", "")]]
    wanted = [text for block, text in zip(blocks, shown, strict=True) if block.language == "sh"]
    *outputs, rest = printed.split(f"{MARK}\n")
    assert len(outputs) == len(wanted), rest
    for output, text in zip(outputs, wanted, strict=True):
        words = text.replace(PORT, str(port)).split()
        pattern = r"\s+".join(re.escape(word).replace("…", ".*?") for word in words)
        assert re.search(pattern, output, re.DOTALL), f"{text!r} is not in {output!r}"


def pages() -> list[str]:
    """README.md and all pages of the site, by their paths in the repository."""
    found = [path.relative_to(HOUSE).as_posix() for path in (HOUSE / "docs").rglob("*.md")]
    return ["README.md", *sorted(found)]


def write(folder: Path, blocks: Sequence[Block]) -> None:
    """Only the files of the page."""
    for block in blocks:
        if name := file_name(block):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(block.text)
