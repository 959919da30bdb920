"""Which names a new plugin may have: they become a package's, a module's, a class's and a setting's value."""

from __future__ import annotations

import keyword
import re
from importlib.util import find_spec

import yaml

from sgframe.assembly.plugins import Plugins
from sgframe.errors import ConfigError

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_LONGEST = 64  # file systems allow 255 bytes, of which the names of a wheel and of compiled tests take some


def module_of(name: str) -> str:
    """The import package of plugin ``name``."""
    return f"sgframe_{name.replace('-', '_')}"


def check_name(name: str, plugins: Plugins) -> None:
    """Raise ConfigError, saying why, unless a new plugin and its part can be called ``name`` beside ``plugins``."""
    _check_form(name)
    module = module_of(name)
    known = [*plugins.loaded, *(broken.plugin for broken in plugins.broken)]
    taken = [f"{offer}" for offer in plugins.offers() if offer.name == name]
    taken += [f"{plugin}" for plugin in known if plugin.name == name]
    taken += [f"the import package {module}"] if find_spec(module) else []
    if taken:
        raise ConfigError(f"the name {name!r} is taken by {taken[0]}; take another one")


def _check_form(name: str) -> None:
    bare = name.removeprefix("sgframe-")
    if not _NAME.fullmatch(name) or bare != name:
        plain = "-".join(re.findall("[a-z0-9]+", bare.lower()))
        advice = f"; did you mean {plain}?" if _NAME.fullmatch(plain) else ""
        raise ConfigError(
            f"{name!r} cannot be a plugin's name: write lower case letters, digits and single hyphens, first a letter, and "
            f"no sgframe- before it, which the package gets by itself{advice}"
        )
    if len(name) > _LONGEST:
        raise ConfigError(f"a plugin's name has at most {_LONGEST} characters, found {len(name)}; take a shorter one")
    if keyword.iskeyword(name):
        raise ConfigError(f"{name!r} cannot be a plugin's name: it is a word of Python's own; take another one")
    if (meant := yaml.safe_load(name)) != name:
        raise ConfigError(
            f"{name!r} cannot be a plugin's name: a YAML file would read it as {meant!r}; take another one"
        )
