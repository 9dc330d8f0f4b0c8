"""The pages on which people sign in: plain HTML, nothing from elsewhere, no script needed."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from html import escape

from entrabot_sandbox.directory import User
from entrabot_sandbox.oauth_forms import Form
from entrabot_sandbox.reply import Reply
from entrabot_sandbox.scopes import Requested

_STYLE = """
body { font: 1rem/1.5 system-ui, sans-serif; margin: 3rem auto; max-width: 32rem; padding: 0 1rem; color: #1b1b1b;
  background: #fff; }
h1 { font-size: 1.5rem; }
fieldset { border: 1px solid #767676; border-radius: .25rem; margin: 1rem 0; }
label { display: block; padding: .25rem 0; }
button { font: inherit; padding: .4rem 1.2rem; margin-right: .5rem; }
.note, .upn { color: #595959; }
@media (prefers-color-scheme: dark) {
  body { color: #eee; background: #1b1b1b; }
  .note, .upn { color: #b0b0b0; }
}
"""
_SUBMIT = 'document.getElementById("answer").submit();'


def choose(
    hidden: Form, people: Iterable[User], chosen: User | None, app: str, requested: Requested, sends_to: str, note: str
) -> Reply:
    """Who signs in, to which application, for what; Accept or Cancel.

    sends_to: the origin that the answer goes to, "" when it stays here. note: what was wrong with the last try.
    """
    rows = "\n".join(_person(person, person is chosen) for person in people)
    scopes = "\n".join(f"<li><code>{escape(line)}</code></li>" for line in _asked(requested))
    told = f"<p>The answer goes to <code>{escape(sends_to)}</code>.</p>" if sends_to else ""
    body = f"""
{_note(note)}<p><strong>{escape(app)}</strong> wants to act in your name. It asks for:</p>
<ul>
{scopes}
</ul>
{told}<form method="post">
{_hidden(hidden)}
<fieldset>
<legend>Sign in as</legend>
{rows}
</fieldset>
<button name="action" value="accept">Accept</button>
<button name="action" value="cancel" formnovalidate>Cancel</button>
</form>"""
    return _page("Sign in", body, form_action=f"'self' {sends_to}".rstrip())


def enter_code(hidden: Form, note: str) -> Reply:
    """Where the code that another device shows is entered."""
    body = f"""
{_note(note)}<p>Enter the code that your device or your agent shows. Enter only one that you asked for yourself.</p>
<form method="post">
{_hidden(hidden)}
<label>Code <input name="user_code" autocomplete="off" autocapitalize="characters" required autofocus></label>
<p><button>Next</button></p>
</form>"""
    return _page("Enter code", body, form_action="'self'")


def told(title: str, text: str, status: int = 200) -> Reply:
    """A page that says something, and has nothing to press."""
    return _page(title, f"\n<p>{escape(text)}</p>", status=status)


def post_on(address: str, origin: str, answer: Form) -> Reply:
    """An answer on its way to a client by ``form_post``: sent by a script, or by a button where there is none."""
    body = f"""
<form method="post" action="{escape(address)}" id="answer">
{_hidden(answer)}
<p>You are going back to the application.</p>
<button>Continue</button>
</form>
<script>{_SUBMIT}</script>"""
    return _page("Signed in", body, form_action=origin, script=f"script-src {_source(_SUBMIT)}; ")


def _person(person: User, chosen: bool) -> str:
    name, upn = escape(person.name), escape((person.home or person).upn)
    checked = " checked" if chosen else ""
    return (
        f'<label><input type="radio" name="user" value="{escape(person.id)}" required{checked}> {name} '
        f'<span class="upn">{upn}</span></label>'
    )


def _asked(requested: Requested) -> list[str]:
    if requested.is_default:
        return [f"everything that it was granted at {requested.uri}", *sorted(requested.openid)]
    return [*(f"{requested.uri}/{name}" for name in requested.names), *sorted(requested.openid)]


def _hidden(fields: Form) -> str:
    pairs = ((escape(name), escape(value)) for name, value in fields.items())
    return "\n".join(f'<input type="hidden" name="{name}" value="{value}">' for name, value in pairs)


def _note(text: str) -> str:
    return f'<p role="alert"><strong>{escape(text)}</strong></p>\n' if text else ""


def _page(title: str, body: str, *, status: int = 200, form_action: str = "'none'", script: str = "") -> Reply:
    document = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{escape(title)} - Entrabot sandbox</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
<p class="note">This is a sandbox. Nobody here is real, and nothing asks for a password.</p>{body}
</body>
</html>
"""
    policy = (
        f"default-src 'none'; style-src {_source(_STYLE)}; {script}form-action {form_action}; "
        "frame-ancestors 'none'; base-uri 'none'"
    )
    headers = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": policy,
        # Not "no-referrer": browsers then send "null" as the origin of a form.
        "Referrer-Policy": "same-origin",
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store, no-cache",
        "Pragma": "no-cache",
    }
    return Reply(status, headers, body=document.encode())


def _source(content: str) -> str:
    """How a policy names an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"
