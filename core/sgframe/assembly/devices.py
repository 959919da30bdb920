"""Whether the chosen device backend can run on this machine, and which others could."""

from __future__ import annotations

from sgframe.assembly.choice import Choice
from sgframe.assembly.choosing import choice_of
from sgframe.assembly.plugins import Offer, Plugins
from sgframe.assembly.providers import Seam
from sgframe.errors import BackendUnavailable, ConfigError
from sgframe.interfaces.backend import Backend, Capabilities


def probe(choice: Choice) -> Capabilities:
    """What the backend finds on this machine. Never raises: whatever goes wrong is the reason it is not usable."""
    try:
        backend: Backend = choice.build()
        return backend.probe()
    except ConfigError as error:
        return Capabilities(usable=False, reason=str(error))
    except Exception as error:  # whatever a third party's probe may raise
        return Capabilities(usable=False, reason=f"the probe of {choice} failed: {type(error).__name__}: {error}")


def probe_offer(offer: Offer) -> Capabilities:
    """The same for a backend that is on offer but not chosen, with its default settings."""
    return Capabilities(usable=False, reason=offer.obstacle) if offer.obstacle else probe(choice_of(offer, {}))


def require_usable(
    plugins: Plugins, choice: Choice, ranks: int = 1, ranks_here: int = 1, speculator: str = ""
) -> Capabilities:
    """What the chosen backend can do here. Raises BackendUnavailable with its reason and the backends that can run, or with
    the numbers when it has no room for so many ``ranks``, of which ``ranks_here`` are to be on this machine; or when it
    is to verify what the ``speculator`` of that name guesses, and cannot."""
    found = probe(choice)
    if found.usable and speculator and not found.verifies:
        raise BackendUnavailable(
            f"backend '{choice.name}' cannot verify guessed tokens, as speculator '{speculator}' needs it: leave the "
            "speculator out, or choose another backend"
        )
    if found.usable and ranks > 1 and not found.joins:
        raise BackendUnavailable(f"backend '{choice.name}' runs on one rank only, but tp_size is {ranks}: leave it out")
    if found.usable and ranks_here > found.max_ranks:
        raise BackendUnavailable(
            f"backend '{choice.name}' has room for {found.max_ranks} ranks on this machine ({found.device or 'no device'}), "
            f"but {ranks_here} are asked for: lower tp_size, or spread the ranks over more machines (nnodes)"
        )
    if found.usable:
        return found
    others = (offer for offer in plugins.offers(Seam.BACKEND) if offer.name != choice.name)
    able = [offer.name for offer in others if probe_offer(offer).usable]
    raise BackendUnavailable(
        f"backend '{choice.name}' cannot run here: {found.reason}\n"
        f"  can run here: {', '.join(able) or 'none'}"
        + (f"; choose one, for example --backend {able[0]}" if able else "")
    )
