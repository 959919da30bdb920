"""``sgframe new-plugin``: writes a package that fills a seam, complete and working, for its author to change."""

from __future__ import annotations

from pathlib import Path

import click

from sgframe.assembly.plugins import load_plugins
from sgframe_cli.new_plugin.names import check_name
from sgframe_cli.new_plugin.package import SEAMS, write_package


@click.command("new-plugin")
@click.argument("name")
@click.option("--seam", type=click.Choice(SEAMS), required=True, help="What the plugin's part fills.")
def new_plugin(name: str, seam: str) -> None:
    """Write a package with a part NAME for a seam.

    It goes into the folder sgframe-NAME of the current one. It can be installed, passes its own tests and is chosen by
    --plugin NAME as it stands; what it does is yours to change.
    """
    check_name(name, load_plugins())
    folder = write_package(Path.cwd(), name, seam)
    click.echo(
        f"{folder.name} has a {seam} '{name}' that works as it is. Go on with\n"
        f"  cd {folder.name}\n"
        "  pip install --editable '.[test]'\n"
        "  pytest\n"
        f"  sgframe plugins --plugin {name}"
    )
