"""Bindings: the last message of each sponsor, for a while."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from entrabot_host.host import Conversation, Sponsor
from entrabot_host.identity.bindings import Bindings

from .fakes import START, ServiceTime, guid

ALICE = Sponsor(guid(1), "Alice", frozenset())
CAROL = Sponsor(guid(2), "Carol", frozenset())
CHAT, OTHER = Conversation.chat("19:a@thread.v2"), Conversation.chat("19:b@thread.v2")


def test_a_binding_lives_from_the_messages_creation() -> None:
    now = ServiceTime(START + timedelta(seconds=500))
    bindings = Bindings(600, now)
    bindings.mint(ALICE, CHAT, "1", START)
    now.forward(99.9)
    live = bindings.live(ALICE.object_id)
    assert live is not None
    assert (live.message_id, live.conversation, live.created) == ("1", CHAT, START)
    now.forward(0.1)
    assert bindings.live(ALICE.object_id) is None


def test_the_last_message_counts_whatever_the_order_of_arrival() -> None:
    bindings = Bindings(600, ServiceTime(START + timedelta(seconds=20)))
    bindings.mint(ALICE, CHAT, "2", START + timedelta(seconds=10))
    bindings.mint(ALICE, OTHER, "1", START)
    live = bindings.live(ALICE.object_id)
    assert live is not None
    assert live.conversation == CHAT
    assert bindings.live(CAROL.object_id) is None


def test_mail_binds_nothing() -> None:
    bindings = Bindings(600, ServiceTime())
    bindings.mint(ALICE, Conversation.mail("sati@contoso.example"), "1", START)
    assert bindings.live(ALICE.object_id) is None


def test_a_message_from_the_future_is_in_doubt() -> None:
    now = ServiceTime()
    bindings = Bindings(600, now)
    bindings.mint(ALICE, CHAT, "1", START + timedelta(seconds=61))
    assert bindings.live(ALICE.object_id) is None
    now.forward(1)
    assert bindings.live(ALICE.object_id) is not None


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="time zone"):
        Bindings(600, ServiceTime()).mint(ALICE, CHAT, "1", datetime(2026, 11, 30))


def test_dropping_all() -> None:
    bindings = Bindings(600, ServiceTime())
    bindings.mint(ALICE, CHAT, "1", START)
    bindings.drop_all()
    assert bindings.live(ALICE.object_id) is None
