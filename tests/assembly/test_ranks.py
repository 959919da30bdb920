"""Ranks and machines in the settings: what is refused before anything starts, and with which numbers."""

from __future__ import annotations

from typing import Any

import pytest

from sgframe.assembly.assemble import assemble
from sgframe.assembly.settings import Settings, read_settings
from sgframe.errors import BackendUnavailable, ConfigError

TWO_MACHINES = {"tp_size": 4, "nnodes": 2, "dist_addr": "192.0.2.7:29500"}


def settings(**values: Any) -> Settings:
    return read_settings(values).settings


def refusal(**values: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read_settings(values)
    return str(caught.value)


def test_one_rank_on_one_machine_is_the_default() -> None:
    assert (settings().tp_size, settings().nnodes, settings().local_ranks) == (1, 1, 1)


def test_ranks_are_spread_evenly() -> None:
    assert settings(**TWO_MACHINES).local_ranks == 2


def test_ranks_that_machines_do_not_divide_are_refused() -> None:
    assert "tp_size is 3, which nnodes, 2, does not divide" in refusal(**TWO_MACHINES | {"tp_size": 3})


def test_a_machine_beyond_the_last_is_refused() -> None:
    assert "node_rank is 2, but with nnodes 2 the machines are 0 … 1" in refusal(**TWO_MACHINES, node_rank=2)


def test_several_machines_need_an_address() -> None:
    assert "dist_addr is None with nnodes 2" in refusal(tp_size=2, nnodes=2)


def test_one_machine_has_no_use_for_an_address() -> None:
    assert "dist_addr is '192.0.2.7:29500' with nnodes 1" in refusal(tp_size=2, dist_addr="192.0.2.7:29500")


NO_ADDRESSES = ["192.0.2.7", "192.0.2.7:", ":29500", "http://host:29500", "host:29500/x", "::1:29500", "a/b:3000"]


@pytest.mark.parametrize("address", [*NO_ADDRESSES, "host:0", "host:65536"])
def test_an_address_is_host_and_port(address: str) -> None:
    assert "write host:port" in refusal(**TWO_MACHINES | {"dist_addr": address})


@pytest.mark.parametrize("address", ["192.0.2.7:29500", "node-0.example:1", "[2001:db8::7]:29500"])
def test_hosts_are_names_or_addresses(address: str) -> None:
    assert settings(**TWO_MACHINES | {"dist_addr": address}).dist_addr == address


@pytest.mark.parametrize("key", ["tp_size", "nnodes", "step_timeout", "digest_interval"])
def test_nothing_is_less_than_one_or_never(key: str) -> None:
    assert key in refusal(**{key: 0})


@pytest.mark.parametrize("machines", [{}, {"nnodes": 2, "dist_addr": "192.0.2.7:29500"}], ids=["one", "two"])
def test_a_backend_of_one_rank_is_refused_several_wherever_they_stand(machines: dict[str, Any]) -> None:
    with pytest.raises(BackendUnavailable, match="'simulated' runs on one rank only, but tp_size is 2"):
        assemble({"backend": "simulated", "source": "simulated", "tp_size": 2, **machines}, None, {})


def test_more_ranks_than_the_machine_has_room_for_are_refused_with_the_numbers() -> None:
    with pytest.raises(
        BackendUnavailable, match=r"'cpu' has room for 64 ranks on this machine .*, but 65 are asked for"
    ):
        assemble({"backend": "cpu", "tp_size": 65}, None, {})


def test_only_the_ranks_of_this_machine_need_room_here() -> None:
    assemble({"backend": "cpu", "tp_size": 66, "nnodes": 2, "dist_addr": "192.0.2.7:29500"}, None, {})


def test_ranks_cannot_live_in_one_process() -> None:
    with pytest.raises(ConfigError, match="transport 'inproc' keeps all in one process, but tp_size is 2"):
        assemble({"backend": "cpu", "tp_size": 2, "transport": "inproc"}, None, {})
