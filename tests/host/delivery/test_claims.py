"""Who may hand over, and when: the whole table."""

import pytest

from entrabot_host.delivery.claims import Kind, push_delay, ride_delay, wait_delay

PROVEN, ASSUMED, NONE = Kind.PROVEN, Kind.ASSUMED, Kind.NONE


@pytest.mark.parametrize(
    ("rival", "delay"),
    [(None, 0), (PROVEN, 8), (ASSUMED, 8), (NONE, 60)],
)
def test_a_push_host_leaves_the_preferred_session_its_time(rival: Kind | None, delay: float) -> None:
    assert push_delay(rival) == delay


@pytest.mark.parametrize("rival", [None, *Kind])
@pytest.mark.parametrize("mine", Kind)
def test_a_wait_takes_its_own_chat_at_once(mine: Kind, rival: Kind | None) -> None:
    assert wait_delay(mine, rival, own=True) == 0


@pytest.mark.parametrize(
    ("mine", "rival", "delay"),
    [
        (NONE, None, 0),
        (NONE, PROVEN, 15),
        (NONE, ASSUMED, 15),
        (NONE, NONE, 15),
        (PROVEN, None, 0),
        (PROVEN, ASSUMED, 8),
        (ASSUMED, NONE, 60),
    ],
)
def test_a_wait_leaves_other_chats_to_who_is_preferred(mine: Kind, rival: Kind | None, delay: float) -> None:
    assert wait_delay(mine, rival, own=False) == delay


@pytest.mark.parametrize(
    ("mine", "rival", "delay"),
    [(NONE, None, 0), (NONE, NONE, 15), (NONE, PROVEN, 15), (ASSUMED, None, None), (PROVEN, NONE, None)],
)
def test_any_call_takes_along_what_was_left_over(mine: Kind, rival: Kind | None, delay: float | None) -> None:
    assert ride_delay(mine, rival) == delay
