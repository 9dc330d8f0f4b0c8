"""Which mail counts."""

from __future__ import annotations

from typing import Any

import pytest
from entrabot_email.filters import is_bounce, is_own, is_protected, noise
from entrabot_email.wire import Mail, mail_of, mails_of
from hypothesis import given, settings
from hypothesis import strategies as st


def mail(sender: str = "alice@contoso.example", *, subject: str = "Hi", **more: Any) -> Mail:
    headers = [{"name": name, "value": value} for name, value in more.pop("headers", {}).items()]
    row = {
        "id": "AAMk",
        "receivedDateTime": "2026-01-01T00:00:00Z",
        "from": {"emailAddress": {"name": "A", "address": sender}},
        "subject": subject,
        "internetMessageHeaders": headers,
        **more,
    }
    found = mail_of(row)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (mail(), ""),
        (mail(headers={"Auto-Submitted": "no"}), ""),
        (mail("noreen@contoso.example"), ""),
        (mail("reply@contoso.example"), ""),
        (mail(headers={"Precedence": "first-class"}), ""),
        (mail(**{"@odata.type": "#microsoft.graph.eventMessageRequest"}), ""),
        (mail(headers={"Auto-Submitted": "auto-replied"}), "automatic reply"),
        (mail(headers={"X-Autoreply": "yes"}), "automatic reply"),
        (mail(headers={"list-unsubscribe": "<mailto:x>"}), "mailing list"),
        (mail(headers={"Precedence": "Bulk"}), "mailing list"),
        (mail("no-reply@shop.example"), "no-reply sender"),
        (mail("NoReply@shop.example"), "no-reply sender"),
        (mail("do-not-reply@shop.example"), "no-reply sender"),
        (mail("jobs.noreply@shop.example"), "no-reply sender"),
        (mail(**{"@odata.type": "#microsoft.graph.eventMessageResponse"}), "answer to an invitation"),
    ],
)
def test_noise(found: Mail, reason: str) -> None:
    assert noise(found) == reason


def test_a_bounce_is_no_noise() -> None:
    headers = {"Content-Type": "multipart/report; report-type=delivery-status", "Auto-Submitted": "auto-replied"}
    assert is_bounce(mail("postmaster@contoso.example", headers=headers))
    assert noise(mail("postmaster@contoso.example", headers=headers)) == ""
    assert is_bounce(
        mail("MicrosoftExchange329e71ec88ae4615bbc36ab6ce41109e@contoso.example", subject="Undeliverable: x")
    )
    assert not is_bounce(mail(subject="Undeliverable: x"))


def test_own() -> None:
    assert is_own(mail("Sati@contoso.example"), "sati@contoso.example")
    assert is_own(mail(isDraft=True), "sati@contoso.example")
    assert not is_own(mail(), "sati@contoso.example")


def test_protected() -> None:
    assert is_protected(mail(headers={"Content-Class": "rpmsg.message"}))
    note = "This message is protected with Microsoft Information Protection. You can open it using Microsoft Outlook"
    assert is_protected(mail(bodyPreview=note))
    assert not is_protected(mail(bodyPreview="We use Microsoft Information Protection."))
    assert not is_protected(mail(bodyPreview="The message is protected."))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("id", "receivedDateTime", "from", "toRecipients", "subject", "body", "internetMessageHeaders", "@odata.type")


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(FIELDS), JSON), JSON)
def test_whatever_graph_sends_is_survived(row: dict[str, Any], rows: Any) -> None:
    mails_of(rows)
    found = mail_of({"id": "x", "receivedDateTime": "2026-01-01T00:00:00Z", **row})
    if found is not None:
        assert isinstance(noise(found), str)
        is_protected(found)


def test_nulls_of_drafts_and_systems() -> None:
    nothing = {"from": None, "sender": None, "subject": None}
    headers = [{"name": "Received", "value": None}, None]
    row = {"id": "x", "receivedDateTime": "2026-01-01T00:00:00Z", **nothing, "internetMessageHeaders": headers}
    found = mail_of(row)
    assert found is not None
    assert (found.sender.address, found.subject, found.headers) == ("", "", (("Received", ""),))
    assert mail_of({"id": "x"}) is None
    assert mail_of(None) is None
