"""Offers the plain parts: cache ``none``, policy ``fcfs``, grammar ``none``, speculator ``none``, transport ``inproc``."""

from __future__ import annotations

from sgframe import Provider, hookimpl


@hookimpl
def sgframe_caches() -> list[Provider]:
    return [Provider("none", "sgframe_basic.cache:NoCache", "keeps nothing: every prompt is computed anew")]


@hookimpl
def sgframe_policies() -> list[Provider]:
    return [Provider("fcfs", "sgframe_basic.policy:FirstComeFirstServed", "first come, first served")]


@hookimpl
def sgframe_grammars() -> list[Provider]:
    return [Provider("none", "sgframe_basic.grammar:NoGrammar", "refuses every constraint on the output")]


@hookimpl
def sgframe_speculators() -> list[Provider]:
    return [Provider("none", "sgframe_basic.speculator:NoSpeculator", "guesses nothing: a token a step")]


@hookimpl
def sgframe_transports() -> list[Provider]:
    return [Provider("inproc", "sgframe_basic.inproc:InprocTransport", "queues between threads of one process")]
