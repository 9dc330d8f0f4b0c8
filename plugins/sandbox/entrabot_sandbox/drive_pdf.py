"""What Graph's conversion to PDF does to a Word document, as far as its text goes: a real, small PDF."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from html import unescape

LINES_PER_PAGE = 50
LINE = 90
_PARAGRAPH = re.compile(r"</w:p>")
_HEBREW_ARABIC = r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]+"
_RIGHT_TO_LEFT = re.compile(f"{_HEBREW_ARABIC}(?: +{_HEBREW_ARABIC})*")
_TAG = re.compile(r"<[^>]+>")


def document_text(content: bytes) -> str:
    """The text of a .docx, a paragraph a line. Raises ValueError when it is none."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            xml = archive.read("word/document.xml").decode("utf-8")
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError) as error:
        raise ValueError("not a Word document") from error
    return unescape(_TAG.sub("", _PARAGRAPH.sub("\n", xml))).strip()


def make_document(text: str) -> bytes:
    """The least .docx with this text, a paragraph a line."""
    paragraphs = "".join(f"<w:p><w:r><w:t>{_escaped(line)}</w:t></w:r></w:p>" for line in text.split("\n"))
    space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    files = {
        "[Content_Types].xml": '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/'
        'content-types"><Default Extension="xml" ContentType="application/xml"/></Types>',
        "word/document.xml": f'<?xml version="1.0"?><w:document xmlns:w="{space}"><w:body>{paragraphs}</w:body>'
        "</w:document>",
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return buffer.getvalue()


def make_pdf(text: str) -> bytes:
    """A PDF of this text in pages of some lines; characters beyond the basic plane become a box."""
    lines = [line[at : at + LINE] for line in text.split("\n") for at in range(0, max(len(line), 1), LINE)]
    pages = [lines[at : at + LINES_PER_PAGE] for at in range(0, max(len(lines), 1), LINES_PER_PAGE)]
    used = sorted({_code(char) for line in lines for char in line})
    objects: list[bytes] = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", *_font(used)]
    kids = []
    for page in pages:
        stream = zlib.compress(_drawn(page))
        header = b"<< /Length %d /Filter /FlateDecode >>" % len(stream)
        objects.append(header + b"\nstream\n" + stream + b"\nendstream")
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % len(objects)
        )
        kids.append(b"%d 0 R" % len(objects))
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), b" ".join(kids))
    return _assembled(objects)


def _font(used: list[int]) -> list[bytes]:
    """A font whose codes are code points, and the map that says so."""
    maps = []
    for at in range(0, len(used), 100):
        part = used[at : at + 100]
        rows = b"\n".join(b"<%04X> <%04X>" % (code, code) for code in part)
        maps.append(b"%d beginbfchar\n%s\nendbfchar" % (len(part), rows))
    cmap = (
        b"/CIDInit /ProcSet findresource begin 12 dict begin begincmap\n/CMapName /U def /CMapType 2 def\n"
        b"1 begincodespacerange\n<0000> <FFFF>\nendcodespacerange\n" + b"\n".join(maps) + b"\nendcmap end end"
    )
    return [
        b"<< /Type /Font /Subtype /Type0 /BaseFont /Sandbox /Encoding /Identity-H /DescendantFonts [4 0 R] "
        b"/ToUnicode 5 0 R >>",
        b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Sandbox /DW 500 "
        b"/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(cmap), cmap),
    ]


def _drawn(lines: list[str]) -> bytes:
    seen = [_RIGHT_TO_LEFT.sub(lambda run: run.group()[::-1], line) for line in lines]  # as it is drawn: left to right
    rows = [b"<%s> Tj T*" % "".join(f"{_code(char):04X}" for char in line).encode() for line in seen]
    return b"BT /F1 10 Tf 14 TL 50 800 Td\n" + b"\n".join(rows) + b"\nET"


def _code(char: str) -> int:
    code = ord(char)
    return code if code < 0xD800 or 0xDFFF < code < 0x10000 else 0x25A1


def _assembled(objects: list[bytes]) -> bytes:
    body = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    offsets = []
    for number, content in enumerate(objects, 1):
        offsets.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(body)
    body += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    body += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    body += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(body)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
