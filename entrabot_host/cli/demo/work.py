"""Scenes of work: a file that is shared on the sponsor's word, a Word comment, a mail, a promise."""

from __future__ import annotations

from typing import Any

from entrabot_host.cli.demo.cast import Cast, Scene
from entrabot_host.cli.demo.stage import expect
from entrabot_host.security.envelope import MARKER
from entrabot_host.testing.agent import ToolFailed


async def _file(cast: Cast) -> None:
    name = "release-notes.md"
    written = await cast.does(
        "write_text_file", f"file_name={name!r}", target_type="onedrive", file_name=name, content="# Release 4.2\n"
    )
    handle = {"drive_id": written["drive_id"], "item_id": written["item_id"], "name": name}
    read = await cast.does("read_file", f"name={name!r}", **handle)
    with cast.stage.promise("it lies in the agent's own OneDrive; what is read comes in the envelope"):
        expect("# Release 4.2" in read["text"], "the text is another one")
        expect(read["text"].count(MARKER) == 2, "the envelope is missing")
    if cast.chats and "share_file" in cast.offered:
        await _share(cast, handle)


async def _share(cast: Cast, handle: dict[str, Any]) -> None:
    whom, sponsor = cast.colleague["mail"], cast.sponsor["mail"]
    sharing = {**handle, "recipient_email": whom, "chat_id": cast.chat}
    await cast.sponsor_says("Please share the release notes with Bob.")
    await cast.pushed()
    with cast.stage.promise("not shared because a stranger is said to have asked"):
        try:
            await cast.does("share_file", f"requester_email={whom!r}", **sharing, requester_email=whom)
        except ToolFailed as error:
            expect(error.error["type"] == "RequesterNotSponsorError", f"the error was {error}")
        else:
            expect(False, "it was shared")
    with cast.stage.promise("shared on the word of the sponsor, who has just asked in this chat"):
        shared = await cast.does("share_file", f"requester_email={sponsor!r}", **sharing, requester_email=sponsor)
        expect(bool(shared), "nothing was shared")


async def _comment(cast: Cast) -> None:
    document = await cast.humans.create_document("alice", "Launch plan.docx", "We launch on the 3rd of May.")
    question = "Is the 3rd of May still right?"
    await cast.humans.comment("alice", document, question)
    cast.stage.says("sponsor", f"{cast.sponsor['name']} in Word", question)
    if cast.chats:
        await cast.sponsor_says(f"I put a question into the launch plan, please answer it there: {document['url']}")
        await cast.pushed()
    read = await cast.does("read_word_document", "url=…", url=document["url"])
    with cast.stage.promise("the document and its comments reach the model, as text from outside"):
        expect("3rd of May" in read["content_html"], "the text is missing")
        expect(read["content_html"].count(MARKER) == 2, "the envelope is missing")
        (asked,) = [one for one in read["comments"] if question in str(one)]
    answer = "Yes: the build is green, and the notes are written."
    await cast.does(
        "reply_to_word_comment",
        "comment_id=…",
        drive_id=document["drive_id"],
        document_id=document["item_id"],
        comment_id=asked["id"],
        content=answer,
    )
    cast.stage.says("agent", "Agent in Word", answer)
    with cast.stage.promise("the answer stands in the comment's thread in Word, in the agent's name"):
        await cast.humans.comment_from_agent(document, answer)


async def _mail(cast: Cast) -> None:
    subject = "Budget for the launch"
    letter = {"as": "bob", "subject": subject, "text": "Do we have it?"}
    arrived = await cast.humans.control("POST", "/mail", json=letter)
    cast.stage.says("stranger", f"{cast.colleague['name']} by mail", f"{subject}: {letter['text']}")
    with cast.stage.promise("a mail is heard like a message, and proves nobody a sponsor"):
        push = await cast.pushed()
        expect(subject in push.content, "it is another mail")
        expect(push.meta.get("sponsor") == "no", "it passes for a sponsor's")
    mail = await cast.does("read_email", "message_id=…", message_id=push.meta["message_id"])
    expect("Do we have it?" in mail["body"], f"the mail {arrived['id']} has another text")
    answer = "Alice decides that; I have asked her."
    await cast.does(
        "send_email",
        "reply_to_message_id=…",
        to=cast.colleague["mail"],
        subject=subject,
        body=f"<p>{answer}</p>",
        reply_to_message_id=push.meta["message_id"],
    )
    cast.stage.says("agent", "Agent by mail", answer)
    with cast.stage.promise("its answer arrives in the same thread"):
        query = {"of": "bob", "subject": subject, "wait": "10"}
        found = await cast.humans.control("GET", "/mail", params=query)
        expect(any(answer in str(one.get("body")) for one in found["value"]), "no answer arrived")


async def _promise(cast: Cast) -> None:
    where = cast.chat or "the sponsor"
    what = "report when the launch is done"
    made = await cast.does("add_promise", f"description={what!r}", chat_id=where, description=what)
    with cast.stage.promise("what it owes is kept, for every session that comes after"):
        async with cast.another_host("claude-code") as later:
            owed = await cast.does("list_promises", "", host=later)
            expect(made["id"] in {one["id"] for one in owed}, "the promise is forgotten")


WORK = (
    Scene("A file, shared on the sponsor's word", frozenset({"write_text_file", "read_file"}), _file),
    Scene("A comment in Word is answered", frozenset({"read_word_document", "reply_to_word_comment"}), _comment),
    Scene("A mail, and its answer", frozenset({"read_email", "send_email"}), _mail),
    Scene("What it promised", frozenset({"add_promise", "list_promises"}), _promise),
)
