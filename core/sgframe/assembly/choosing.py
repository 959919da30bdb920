"""From what is on offer and what the settings say to one part per seam. Strict: whatever cannot be honoured is an error."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from sgframe.assembly.choice import Choice, Choices, ShadowChoice, plain, validate
from sgframe.assembly.guard import describe
from sgframe.assembly.hints import nearest
from sgframe.assembly.plugins import Offer, Plugin, Plugins
from sgframe.assembly.providers import API_VERSION, Seam
from sgframe.assembly.settings import Settings, describe_errors
from sgframe.assembly.sources import COMMAND_LINE, ENVIRONMENT
from sgframe.errors import PluginError

SHADOWED = (Seam.CACHE, Seam.POLICY)
"""The seams of which a second part can run in shadow."""


def choose(
    plugins: Plugins,
    settings: Settings,
    origins: Mapping[str, str] | None = None,
    seams: Collection[Seam] = tuple(Seam),
) -> dict[Seam, Choice]:
    """The part of every one of ``seams``. Raises PluginError with one line for everything that is wrong.

    ``origins`` (see Resolved) lets the errors say where a faulty setting stands.
    """
    origins = origins or {}
    problems = [_unknown_block(plugins, word) for word in plugins.unmatched]
    unknown = [*_unknown_tables(plugins, settings, origins), *_unknown_parts(plugins, settings, origins, seams)]
    if unknown:
        problems.append("\n".join(unknown) + _absent(plugins))
    offers: list[Offer] = []
    for seam in seams:
        matching = _matching(plugins, seam, settings)
        if problem := _obstacle(plugins, matching):
            problems.append(problem)
        else:
            offers += matching
    choices = {}
    for offer in offers:
        try:
            choices[offer.seam] = choice_of(offer, _own_table(offer, offers, settings), origins)
        except PluginError as error:
            problems.append(str(error))
    if problems:
        raise PluginError("\n".join(problems))
    return choices


def choose_grammars(
    plugins: Plugins, settings: Settings, origins: Mapping[str, str] | None = None
) -> dict[str, Choice]:
    """All grammars that a request may name, the server's own first. Raises PluginError as ``choose`` does."""
    where = {**(origins or {}), "grammar": (origins or {}).get("more_grammars", "default")}
    own, *others = settings.grammars
    chosen = {own: choose(plugins, settings, origins, (Seam.GRAMMAR,))[Seam.GRAMMAR]}
    for name in others:
        one = settings.model_copy(update={"grammar": name})
        chosen[name] = choose(plugins, one, where, (Seam.GRAMMAR,))[Seam.GRAMMAR]
    return chosen


def choose_shadow(
    plugins: Plugins, settings: Settings, origins: Mapping[str, str] | None = None
) -> ShadowChoice | None:
    """The parts in shadow, None when the settings want none; what they leave open is as in service.

    The service's own parts are chosen already. Raises PluginError as ``choose`` does.
    """
    shadow = settings.shadow
    if shadow is None:
        return None
    origins = origins or {}
    names = {"policy": shadow.policy or settings.policy, "cache": shadow.cache or settings.cache}
    if problems := [_unread(name, names, origins) for name in shadow.plugin if name not in names.values()]:
        raise PluginError("\n".join(problems))
    tables = {name: settings.plugin.get(name, {}) | table for name, table in shadow.plugin.items()}
    as_served = settings.model_copy(update=names | {"plugin": settings.plugin | tables})
    own = {key.removeprefix("shadow."): origin for key, origin in origins.items() if key.startswith("shadow.")}
    try:
        choices = choose(plugins, as_served, {**origins, **own}, SHADOWED)
    except PluginError as error:
        raise PluginError(f"in the shadow: {error}") from None
    return ShadowChoice(cache=choices[Seam.CACHE], policy=choices[Seam.POLICY])


def require_readers(plugins: Plugins, settings: Settings, choices: Choices, origins: Mapping[str, str]) -> None:
    """Raise PluginError for settings of parts that are not among ``choices``, if they were said for this one start.

    In a file they may stand: it can serve several deployments.
    """
    chosen = {choice.name for choice in choices.values()} | choices.grammars.keys()
    if choices.shadow is not None:
        chosen |= {choices.shadow.policy.name, choices.shadow.cache.name}
    problems = [
        f"{key}: nobody reads it ({origins[key]}); {_not_chosen(plugins, settings, name)}"
        for name, table in settings.plugin.items()
        if name not in chosen
        for key in (f"plugin.{name}.{setting}" for setting in table)
        if origins[key].startswith((COMMAND_LINE, ENVIRONMENT))
    ]
    if problems:
        raise PluginError("\n".join(problems))


def pick(plugins: Plugins, words: Iterable[str]) -> dict[Seam, str]:
    """The seam that each word of ``--plugin`` fills.

    Raises PluginError for a word that nobody or more than one seam offers, and for two words for one seam.
    """
    picked: dict[Seam, str] = {}
    for word in words:
        seams = list(dict.fromkeys(offer.seam for offer in plugins.offers() if offer.name == word))
        if not seams:
            raise PluginError(_unknown_word(plugins, word))
        if len(seams) > 1:
            forms = " or ".join(f"--{seam.value} {word}" for seam in seams)
            raise PluginError(f"--plugin {word} could fill more than one seam: say {forms}")
        if picked.setdefault(seams[0], word) != word:
            raise PluginError(
                f"--plugin {picked[seams[0]]} and --plugin {word} both fill the {seams[0].value}: drop one"
            )
    return picked


def choice_of(offer: Offer, table: Mapping[str, Any], origins: Mapping[str, str] | None = None) -> Choice:
    """The offer as a choice, with the settings of ``table``. Raises PluginError, a line for each wrong one."""
    model = offer.provider.settings
    try:
        validate(model, table)
    except ValidationError as error:
        lines = describe_errors(error, ("plugin", offer.name), model.model_fields, origins or {})
        raise PluginError(f"wrong settings for {offer}:\n  " + "\n  ".join(lines)) from None
    except Exception as error:  # whatever a third party's validator may raise
        raise PluginError(f"the settings of {offer} could not be checked: {describe(error)}") from error
    return unchecked_choice(offer, table)


def unchecked_choice(offer: Offer, table: Mapping[str, Any]) -> Choice:
    """The offer as a choice with these settings, whatever they are."""
    model = offer.provider.settings
    return Choice(
        seam=offer.seam,
        name=offer.name,
        target=offer.provider.target,
        settings=plain(table),
        settings_model=f"{model.__module__}:{model.__qualname__}",
        plugin=str(offer.plugin),
    )


def _matching(plugins: Plugins, seam: Seam, settings: Settings) -> list[Offer]:
    return [offer for offer in plugins.offers(seam) if offer.name == getattr(settings, seam.value)]


def _obstacle(plugins: Plugins, matching: list[Offer]) -> str:
    """Why these offers of one name cannot be chosen, or nothing."""
    if len(matching) > 1:
        return _conflict(plugins, matching)
    return "".join(
        f"{offer} cannot be chosen: it {offer.obstacle}{_remedy(offer)}" for offer in matching if offer.obstacle
    )


def _own_table(offer: Offer, chosen: Iterable[Offer], settings: Settings) -> dict[str, Any]:
    """The part's table, without the keys of another chosen part of that name (a backend and its source, say)."""
    others: set[str] = set()
    for other in chosen:
        if other.name == offer.name:
            others |= other.provider.settings.model_fields.keys()
    foreign = others - offer.provider.settings.model_fields.keys()
    return {key: value for key, value in settings.plugin.get(offer.name, {}).items() if key not in foreign}


def _conflict(plugins: Plugins, offers: list[Offer]) -> str:
    seam, name = offers[0].seam.value, offers[0].name
    names = [plugin.name for plugin in plugins.loaded]
    words = dict.fromkeys(_block_word(offer.plugin, names) for offer in offers)
    remedy = " or ".join(f"--plugin no:{word}" for word in words if word)
    return "\n".join(
        [f"{seam} '{name}' is offered more than once:", *(f"  {offer}" for offer in offers)]
        + ([f"  block all but one: {remedy}"] if len(words) > 1 else ["  the plugin must give them different names"])
    )


def _block_word(plugin: Plugin, names: list[str]) -> str:
    """What blocks this plugin and no other: its name, or its distribution's where the name is taken twice."""
    return plugin.name if names.count(plugin.name) == 1 else plugin.distribution


def _unknown_block(plugins: Plugins, word: str) -> str:
    known = [plugin.name for plugin in (*plugins.loaded, *(broken.plugin for broken in plugins.broken))]
    owners = [
        f"; the {offer.seam.value} '{word}' comes from {offer.plugin}"
        for offer in plugins.offers()
        if offer.name == word
    ]
    return f"cannot block '{word}': no plugin has that name{owners[0] if owners else nearest(word, known)}"


def _unknown_word(plugins: Plugins, word: str) -> str:
    parts = [f"--{offer.seam.value} {offer.name}" for offer in plugins.offers() if offer.plugin.name == word]
    if parts:
        return f"--plugin {word}: the plugin '{word}' offers no part of that name; choose from {', '.join(parts)}"
    return f"no plugin offers '{word}'{nearest(word, (offer.name for offer in plugins.offers()))}{_absent(plugins)}"


def _unknown_parts(
    plugins: Plugins, settings: Settings, origins: Mapping[str, str], seams: Collection[Seam]
) -> list[str]:
    problems = []
    for seam in seams:
        if not _matching(plugins, seam, settings):
            name = getattr(settings, seam.value)
            known = list(dict.fromkeys(offer.name for offer in plugins.offers(seam)))
            problems.append(
                f"no plugin offers the {seam.value} '{name}'{_where(origins, seam.value)}{nearest(name, known)}\n"
                f"  on offer: {', '.join(known) or 'nothing'}"
            )
    return problems


def _unknown_tables(plugins: Plugins, settings: Settings, origins: Mapping[str, str]) -> list[str]:
    known = {offer.name for offer in plugins.offers()}
    absent = {plugin.name for plugin in plugins.blocked}
    return [
        f"plugin.{name}: no plugin offers a part '{name}'{_where(origins, f'plugin.{name}')}"
        f"{nearest(name, known) or '; drop the table, or install the plugin that reads it'}"
        for name in settings.plugin
        if name not in known | absent
    ]


def _unread(name: str, names: Mapping[str, str], origins: Mapping[str, str]) -> str:
    """What is wrong with the shadow's table ``name``: unlike the service's, it is there for this one choice."""
    key = f"shadow.plugin.{name}"
    return (
        f"{key}: nobody reads this table{_where(origins, key)}; the shadow's policy is '{names['policy']}' and its cache "
        f"'{names['cache']}'{nearest(name, names.values())}"
    )


def _not_chosen(plugins: Plugins, settings: Settings, name: str) -> str:
    """Why nobody reads the settings of the part ``name``, and the remedy."""
    seams = dict.fromkeys(offer.seam.value for offer in plugins.offers() if offer.name == name)
    if not seams:
        return f"the plugin '{name}' is blocked: drop one of the two"
    others = " and ".join(f"the {seam} is '{getattr(settings, seam)}'" for seam in seams)
    return f"{others}: say {' or '.join(f'--{seam} {name}' for seam in seams)}, or drop it"


def _absent(plugins: Plugins) -> str:
    """The plugins that offer nothing although they are there: they may be what the user looks for."""
    lines = [str(broken) for broken in plugins.broken] + [f"{plugin} is blocked" for plugin in plugins.blocked]
    return "".join(f"\n  {line}" for line in lines)


def _remedy(offer: Offer) -> str:
    if offer.obstacle.startswith("needs"):
        extra = offer.provider.extra
        install = f"pip install '{offer.plugin.distribution or 'sgframe'}[{extra}]'" if extra else "install it"
        return f", which is not installed here; {install}, or choose another"
    distribution = offer.plugin.distribution or "sgframe"
    if offer.provider.api < API_VERSION:
        return f"; upgrade {distribution}"
    return f"; upgrade sgframe, or install an older {distribution}"


def _where(origins: Mapping[str, str], key: str) -> str:
    origin = origins.get(key, "default")
    return "" if origin == "default" else f" ({origin})"
