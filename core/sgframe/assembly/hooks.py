"""Asks one hook module what it offers: pluggy checks the names and arguments of its hooks, this module what they return.

Knows neither where the module came from nor what else is on offer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pluggy

from sgframe.assembly import hookspecs
from sgframe.assembly.hints import nearest
from sgframe.assembly.providers import API_VERSION, PluginSettings, Provider, Seam
from sgframe.errors import PluginError

HOOKS: Mapping[str, Seam] = {
    "sgframe_caches": Seam.CACHE,
    "sgframe_policies": Seam.POLICY,
    "sgframe_grammars": Seam.GRAMMAR,
    "sgframe_speculators": Seam.SPECULATOR,
    "sgframe_transports": Seam.TRANSPORT,
    "sgframe_model_sources": Seam.SOURCE,
    "sgframe_backends": Seam.BACKEND,
    "sgframe_launchers": Seam.LAUNCHER,
}
"""Hook → the seam that it fills. One that gets another name stands here under both while plugins that know only the old one
are accepted."""

COMMANDS = "sgframe_commands"
ACCEPTED_API = (API_VERSION - 1, API_VERSION)
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_MODULE = re.compile(r"[A-Za-z_][\w.]*")


def open_manager(module: Any) -> pluggy.PluginManager:
    """A manager that holds this hook module alone.

    Raises PluginError for a misspelt hook, and when the module implements none.
    """
    manager = pluggy.PluginManager("sgframe")
    manager.add_hookspecs(hookspecs)
    manager.register(module)
    known = [*HOOKS, COMMANDS]
    callers = {caller.name for caller in manager.get_hookcallers(module) or ()}
    if unknown := sorted(callers - set(known)):
        raise PluginError(f"there is no hook '{unknown[0]}' in plugin API {API_VERSION}{nearest(unknown[0], known)}")
    if not callers:
        unmarked = [name for name in known if hasattr(module, name)]
        raise PluginError(f"put @hookimpl on {', '.join(unmarked)}" if unmarked else "it implements no hook of sgframe")
    manager.check_pending()
    return manager


def ask(manager: pluggy.PluginManager) -> list[tuple[Seam, Provider]]:
    """What the plugin in ``manager`` offers. Raises PluginError for an answer that cannot be right."""
    offered: list[tuple[Seam, Provider]] = []
    for name, seam in HOOKS.items():
        hook = getattr(manager.hook, name)
        answers = hook()
        if len(answers) < len(hook.get_hookimpls()):
            raise PluginError(f"{name} must give Provider records in a list, found None")  # pluggy drops it
        answered = [(seam, _checked(provider, name)) for answer in answers for provider in _records(answer, name)]
        offered += [each for each in answered if each not in offered]  # the same part, under a hook's old and new name
    return offered


def _records(answer: Any, hook: str) -> Iterable[Any]:
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        raise PluginError(f"{hook} must give Provider records in a list, found {answer!r}")
    return answer


def _checked(provider: Any, hook: str) -> Provider:
    if not isinstance(provider, Provider):
        raise PluginError(f"{hook} must give Provider records, found {provider!r}")
    if fault := _fault(provider):
        raise PluginError(f"{hook}: {fault}")
    return provider


def _fault(provider: Provider) -> str:
    """What of the record is not what its types say: third parties need not run a type checker."""
    name, target, settings, requires = provider.name, provider.target, provider.settings, provider.requires
    texts = (provider.summary, provider.extra)
    is_model = isinstance(settings, type) and issubclass(settings, PluginSettings)
    aliased = [key for key, field in settings.model_fields.items() if field.validation_alias] if is_model else []
    rules = (
        (_fits(_NAME, name), f"the name {name!r} must be lower case letters, digits and hyphens"),
        (_fits(_TARGET, target), f"the target of '{name}' must be 'module:Class', found {target!r}"),
        (is_model, f"the settings of '{name}' must subclass PluginSettings"),
        (
            is_model and settings.model_config.get("extra") == "forbid",
            f"the settings of '{name}' must refuse unknown keys",
        ),
        (
            not aliased,
            f"the settings of '{name}' must be called as their fields; drop the alias of {', '.join(aliased)}",
        ),
        (
            isinstance(requires, tuple) and all(_fits(_MODULE, module) for module in requires),
            f"what '{name}' requires must be a tuple of module names, found {requires!r}",
        ),
        (type(provider.api) is int, f"the API number of '{name}' must be an integer, found {provider.api!r}"),
        (all(isinstance(text, str) for text in texts), f"summary and extra of '{name}' must be text, found {texts!r}"),
    )
    return next((text for right, text in rules if not right), "")


def _fits(pattern: re.Pattern[str], word: object) -> bool:
    return isinstance(word, str) and pattern.fullmatch(word) is not None
