"""Word documents as files: written from HTML or plain text, and read as text."""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import dataclass, field
from html import escape, unescape
from html.parser import HTMLParser

_MAIN = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml"
_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'

_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_ELEMENT = re.compile(r"</?[A-Za-z][^>]*>")
_PIECE = re.compile(r"<w:t(?: [^>/]*)?>(.*?)</w:t>|(<w:br\b[^>]*/>|<w:cr ?/>|</w:p>)|(<w:tab ?/>)", re.DOTALL)
_ENCRYPTED = b"\xd0\xcf\x11\xe0"

_HEADINGS = {f"h{level}": f"Heading{level}" for level in range(1, 7)}
_BLOCKS = frozenset({"p", "div", "li", "ul", "ol", "table", "tr", "td", "th", "blockquote", "pre", "body", *_HEADINGS})
_SILENT = frozenset({"script", "style", "title"})
_MARKS = {"b": "b", "strong": "b", "i": "i", "em": "i", "u": "u"}


@dataclass
class _Paragraph:
    style: str = ""
    runs: list[tuple[str, frozenset[str]]] = field(default_factory=list)

    def xml(self) -> str:
        style = f'<w:pPr><w:pStyle w:val="{self.style}"/></w:pPr>' if self.style else ""
        return f"<w:p>{style}{''.join(_run(text, marks) for text, marks in self.runs)}</w:p>"


def make_word_document(content: str) -> bytes:
    """A .docx of some HTML, or of plain text with a paragraph for each line."""
    content = _FORBIDDEN.sub("", content)
    if _ELEMENT.search(content):
        paragraphs = _Paragraphs.of(content)
    else:
        paragraphs = [_Paragraph(runs=[(line, frozenset())]) for line in content.splitlines()]
    return _packed("".join(paragraph.xml() for paragraph in paragraphs))


def read_word_document(content: bytes) -> str:
    """The text of a .docx, a paragraph a line. Raises ValueError saying why there is none."""
    if content.startswith(_ENCRYPTED):
        raise ValueError("The document is encrypted or in an older format; only unencrypted .docx files can be read.")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            xml = archive.read("word/document.xml").decode("utf-8")
    except (zipfile.BadZipFile, KeyError, UnicodeDecodeError) as error:
        raise ValueError("The file is not a Word document.") from error
    return "".join(_text_of(piece) for piece in _PIECE.finditer(xml)).strip("\n")


def _text_of(piece: re.Match[str]) -> str:
    if piece[1] is not None:
        return unescape(piece[1])
    return "\n" if piece[2] else "\t"


def _run(text: str, marks: frozenset[str]) -> str:
    if text == "\n":
        return "<w:r><w:br/></w:r>"
    named = {"b": "<w:b/>", "i": "<w:i/>", "u": '<w:u w:val="single"/>'}
    properties = "".join(xml for mark, xml in named.items() if mark in marks)
    shown = f"<w:rPr>{properties}</w:rPr>" if properties else ""
    return f'<w:r>{shown}<w:t xml:space="preserve">{escape(text, quote=False)}</w:t></w:r>'


class _Paragraphs(HTMLParser):
    """Takes HTML apart into paragraphs of runs."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.done: list[_Paragraph] = []
        self._current = _Paragraph()
        self._marks: list[str] = []
        self._silent = 0

    @classmethod
    def of(cls, html: str) -> list[_Paragraph]:
        reader = cls()
        reader.feed(html)
        reader.close()
        reader._begin("")
        return reader.done

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _SILENT:
            self._silent += 1
        elif tag in _BLOCKS:
            self._begin(_HEADINGS.get(tag, "ListParagraph" if tag == "li" else ""))
        elif tag == "br":
            self._current.runs.append(("\n", frozenset()))
        elif tag in _MARKS:
            self._marks.append(_MARKS[tag])

    def handle_endtag(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        elif tag in _BLOCKS:
            self._begin("")
        elif tag in _MARKS and _MARKS[tag] in self._marks:
            self._marks.remove(_MARKS[tag])

    def handle_data(self, data: str) -> None:
        text = re.sub(r"[ \t\r\n\f]+", " ", data)
        at_start = not self._current.runs or self._current.runs[-1][0].endswith((" ", "\n"))
        text = text.lstrip(" ") if at_start else text
        if text and not self._silent:
            self._current.runs.append((text, frozenset(self._marks)))

    def _begin(self, style: str) -> None:
        if any(text.strip() for text, _ in self._current.runs):
            self.done.append(self._current)
        self._current = _Paragraph(style)


def _packed(body: str) -> bytes:
    page = '<w:sectPr><w:pgSz w:w="11906" w:h="16838"/></w:sectPr>'
    parts = {
        "[Content_Types].xml": _content_types(),
        "_rels/.rels": _relations(f"{_OFFICE}/officeDocument", "word/document.xml"),
        "word/_rels/document.xml.rels": _relations(f"{_OFFICE}/styles", "styles.xml"),
        "word/document.xml": f'<w:document xmlns:w="{_MAIN}"><w:body>{body}{page}</w:body></w:document>',
        "word/styles.xml": f'<w:styles xmlns:w="{_MAIN}">{_styles()}</w:styles>',
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, xml in parts.items():
            archive.writestr(name, _XML + xml)
    return buffer.getvalue()


def _content_types() -> str:
    space = "http://schemas.openxmlformats.org/package/2006/content-types"
    overrides = "".join(
        f'<Override PartName="/word/{name}.xml" ContentType="{_TYPE}.{kind}+xml"/>'
        for name, kind in (("document", "document.main"), ("styles", "styles"))
    )
    relations = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    return (
        f'<Types xmlns="{space}">{relations}<Default Extension="xml" ContentType="application/xml"/>{overrides}</Types>'
    )


def _relations(kind: str, target: str) -> str:
    return (
        f'<Relationships xmlns="{_RELATIONS}"><Relationship Id="rId1" Type="{kind}" Target="{target}"/></Relationships>'
    )


def _styles() -> str:
    normal = '<w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/></w:style>'
    headings = "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{level}"><w:name w:val="heading {level}"/>'
        f'<w:basedOn w:val="Normal"/><w:pPr><w:outlineLvl w:val="{level - 1}"/></w:pPr>'
        f'<w:rPr><w:b/><w:sz w:val="{36 - 3 * level}"/></w:rPr></w:style>'
        for level in range(1, 7)
    )
    listed = (
        '<w:style w:type="paragraph" w:styleId="ListParagraph"><w:name w:val="List Paragraph"/>'
        '<w:basedOn w:val="Normal"/><w:pPr><w:ind w:left="720"/></w:pPr></w:style>'
    )
    return normal + headings + listed
