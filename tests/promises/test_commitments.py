"""Which texts commit their writer."""

from __future__ import annotations

import time

import pytest
from entrabot_promises.commitments import SHOWN, commitment
from hypothesis import given, settings
from hypothesis import strategies as st

COMMITTING = """\
I'll get back to you tomorrow.
I will report back when the build is done.
Thanks! I’ll follow up on this.
<p>Sure, <b>I'll</b> look into it.</p>
Let me check with Bob and get back to you.
I'm going to investigate and let you know.
We'll keep you posted.
Will get back to you on this.
I'll send you the report by Friday.
I will deploy the fix tonight.
I'll write it up once the tests pass.
You'll have the draft by 5 pm.
You will hear from me.
Stay tuned.
I will definitely update you.
I'll have it ready tomorrow
I'll take care of it
Let me dig into the logs and report back
More soon.
I'll ping you when it's done
I'll circle back next week
I promise to finish it.
I will let the team know
I'll check whether it works and come back.
Expect an update by noon
Got it. The disk is full! I&#39;ll report back.
<div>Hello</div><blockquote>old</blockquote><p>I&apos;ll notify you</p>
"""

HARMLESS = """\
Thanks, done.
Here is the report you asked for.
Let me know when you are done.
Let me know if you need anything.
I won't get back to you on this.
Should I follow up with Bob?
If you like, I'll look into it.
I'll look into it if you want.
I would be happy to follow up.
Can I get back to you?
Bob said he'll get back to you.
Bob said I'll follow up tomorrow.
He will get back to you.
I will be out of office next week.
See you tomorrow!
I'll see you tomorrow.
I will not follow up.
Please report back when you are done.
You should follow up with them.
The report follows up on last week.
I followed up with Bob.
<p>OK</p><blockquote>I'll get back to you</blockquote>
> I'll get back to you
I looked into it: the disk is full.
The build will finish tomorrow.
I told Alice I'll follow up.
Let me explain: it is broken.
"""


@pytest.mark.parametrize("text", COMMITTING.splitlines())
def test_it_commits(text: str) -> None:
    assert commitment(text)


@pytest.mark.parametrize("text", HARMLESS.splitlines())
def test_it_does_not(text: str) -> None:
    assert commitment(text) == ""


def test_the_sentence_is_shown_without_what_surrounds_it() -> None:
    assert commitment("<p>The disk is full.</p><p>I'll report <b>back</b> soon.</p>") == "I'll report back soon."
    assert len(commitment(f"I'll report back about {'x' * 400}")) == SHOWN


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_taken(text: str) -> None:
    assert len(commitment(text)) <= SHOWN


@pytest.mark.parametrize("piece", ["<", "I'll ", "a ", "<blockquote ", "</blockquote", "&", "and then ", "I will a "])
def test_hostile_texts_take_little_time(piece: str) -> None:
    began = time.process_time()
    commitment(piece * 40_000)
    assert time.process_time() - began < 5, "more than linear"
