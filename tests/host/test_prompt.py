"""Instructions: what stands in the first 2,048 characters, includes, fallback."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrabot_host import PromptFragment
from entrabot_host.prompt.body import HEAD_LIMIT, Instructions, compose, prompts_folder
from entrabot_host.prompt.persona import HEADING, INTRODUCTION, MOST_BYTES, readable

TEAMS = PromptFragment(short="Teams: name the chat_id.", full="## Teams\n\nMore about Teams.")
MAIL = PromptFragment(short="Mail: answer in the thread.", full="## Mail\n\nMore about mail.")


def test_the_shipped_texts_have_every_rule_within_what_hosts_show() -> None:
    six = [PromptFragment(short=f"Plugin {n}: " + "x" * 100) for n in range(6)]
    made = compose(six)

    assert len(made.head) <= HEAD_LIMIT
    assert made.text.startswith(made.head)
    for word in ("whoami", "envelope", "sponsor", "chat_id", "entrabot://instructions", "Plugin 5:"):
        assert word in made.head, word
    assert "@include" not in made.text
    assert "missing from this installation" not in made.text
    assert "## Sponsors" in made.text


def test_only_installed_plugins_are_spoken_of() -> None:
    made = compose([TEAMS])

    assert "Teams: name the chat_id." in made.head
    assert "More about Teams." in made.text
    assert "Mail" not in made.text


def test_a_persona_comes_last() -> None:
    body = compose([TEAMS, MAIL])
    made = body.with_persona("You are a pirate.")

    assert made.text.index("More about Teams.") < made.text.index("More about mail.") < made.text.index("pirate")
    assert made.text.startswith(body.text.rstrip())
    assert made.text.endswith("\n\n> You are a pirate.\n")
    assert made.head == body.head
    assert body.with_persona(" \n ") == body


def quoted(text: str) -> list[str]:
    """The lines of the instructions that stand for the persona: all after its introduction, each marked as a quote."""
    body, between, rest = text.partition(f"{HEADING}\n\n{INTRODUCTION}\n\n")
    assert between
    assert HEADING not in body
    lines = rest.removesuffix("\n").split("\n")
    assert all(line == ">" or line.startswith("> ") for line in lines), "a line that is no quote could pass for body"
    assert len(rest.splitlines()) == len(lines), "no other character makes a line, either"
    return lines


LINE_BREAKS = ("\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029")
UNSEEN = ("\u200b", "\u202e", "\U000e0041", "\ud800")
MARKS = (HEADING, INTRODUCTION, "> ", "```", "~~~", "<!-- head ends -->", "-->", "@include anatomy/identity.md", "## X")
FORGERIES = st.sampled_from((*LINE_BREAKS, *UNSEEN, *MARKS))


@given(st.lists(st.one_of(FORGERIES, st.text()), max_size=30).map("".join))
@settings(deadline=None)
def test_no_persona_passes_for_the_body(persona: str) -> None:
    body = compose([TEAMS])
    made = body.with_persona(persona)

    assert made.text.startswith(body.text.rstrip())
    assert made.text.encode()
    if made != body:
        assert quoted(made.text)
        assert made.text[:HEAD_LIMIT] == body.text.rstrip("\n")[:HEAD_LIMIT]
        assert not set("".join((*LINE_BREAKS, *UNSEEN))) - {"\n"} & set(made.text)


@given(st.text(min_size=1))
@settings(deadline=None)
def test_a_persona_never_stands_where_hosts_cut(persona: str) -> None:
    short = Instructions("You are an agent.", "You are an agent.\n").with_persona(persona)
    assert HEADING not in short.text[:HEAD_LIMIT]
    assert ">" not in short.text[:HEAD_LIMIT]


@pytest.mark.parametrize("character", ["a", "\N{SNOWMAN}", "\N{PILE OF POO}", "a\n"])
def test_a_persona_is_bounded_and_says_that_it_was_cut(character: str) -> None:
    whole = character * (MOST_BYTES // len(character.encode()))
    assert "[cut here" not in readable(whole)
    cut = readable(f"{whole}and more")
    assert "and more" not in cut
    assert cut.splitlines()[-1].startswith("[cut here")
    assert len(cut.encode()) < MOST_BYTES + 100


def test_short_parts_that_do_not_fit_are_counted() -> None:
    many = [PromptFragment(short="y" * 190) for _ in range(12)]
    made = compose(many)

    assert len(made.head) <= HEAD_LIMIT
    shown = made.head.count("y" * 190)
    assert 0 < shown < 12
    assert f"{12 - shown} more in the full instructions" in made.head


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_includes_go_one_level_deep_and_a_missing_file_is_visible(tmp_path: Path) -> None:
    write(
        tmp_path, "agent_system.md", "Head.\n<!-- head ends -->\n@include anatomy/one.md\n\n@include anatomy/none.md\n"
    )
    write(tmp_path, "anatomy/one.md", "First.\n@include anatomy/two.md\n")
    write(tmp_path, "anatomy/two.md", "Second.")

    text = compose([], tmp_path).text

    assert "First.\n@include anatomy/two.md" in text
    assert "Second." not in text
    assert "<!-- anatomy/none.md is missing from this installation -->" in text


@pytest.mark.parametrize("target", ["../secret.md", "anatomy/../../secret.md", "/etc/passwd", "anatomy/a/b.md"])
def test_includes_stay_in_their_folder(tmp_path: Path, target: str) -> None:
    (tmp_path / "prompts").mkdir()
    write(tmp_path / "prompts", "agent_system.md", f"Head.\n<!-- head ends -->\n@include {target}\n")
    write(tmp_path, "secret.md", "secret text")

    assert "secret text" not in compose([], tmp_path / "prompts").text


def test_without_the_body_file_a_fallback_says_so(tmp_path: Path) -> None:
    text = compose([TEAMS], tmp_path).text

    assert "missing from this installation" in text
    assert "Teams: name the chat_id." in text
    assert prompts_folder() is not None
