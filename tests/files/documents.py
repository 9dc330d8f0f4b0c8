"""PDFs of every kind, made on the spot; and the real ones of packages."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import zlib
from pathlib import Path

import pypdf
import pytest
from entrabot_sandbox.drive_pdf import make_pdf
from pypdf import PdfReader, PdfWriter

ROOT = Path(__file__).parents[2]
DEBIAN = (
    Path("/usr/share/doc/libtasn1-doc/libtasn1.pdf"),
    Path("/usr/share/doc/shared-mime-info/shared-mime-info-spec.pdf"),
)


def protected(password: str, algorithm: str = "AES-256", owner: str = "owner") -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(make_pdf("Secret plans"))))
    writer.encrypt(password, owner, algorithm=algorithm)
    return written(writer)


def written(writer: PdfWriter) -> bytes:
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def scanned(pages: int = 2) -> bytes:
    """Pages that are pictures: a grey raster drawn over each."""
    picture = zlib.compress(bytes(range(100)) * 100)
    return from_objects(
        pages,
        b"<< /XObject << /Im0 3 0 R >> >>",
        b"q 595 0 0 842 0 0 cm /Im0 Do Q",
        b"<< /Type /XObject /Subtype /Image /Width 100 /Height 100 /ColorSpace /DeviceGray /BitsPerComponent 8 "
        b"/Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (len(picture), picture),
    )


FONT = b"<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"


def bomb(mebibytes: int = 200) -> bytes:
    """A page whose content is a few hundred kilobytes, and very much more when it is unpacked."""
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(b" " * (1024 * 1024)) for _ in range(mebibytes)) + packer.flush()
    return from_objects(1, FONT, None, stream(packed, b"/Filter /FlateDecode"))


def endless() -> bytes:
    """A small file that keeps a parser busy for minutes: a page of four million words, packed well."""
    packed = zlib.compress(b"BT (a) Tj ET " * 4_000_000)
    return from_objects(1, FONT, None, stream(packed, b"/Filter /FlateDecode"))


def stream(content: bytes, entries: bytes = b"") -> bytes:
    return b"<< %s /Length %d >>\nstream\n%s\nendstream" % (entries, len(content), content)


def from_objects(pages: int, resources: bytes, drawing: bytes | None, third: bytes) -> bytes:
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", third]
    if drawing is not None:
        objects.append(stream(drawing))
    content = 3 if drawing is None else 4
    first = len(objects) + 1
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R /Resources %s >>"
    objects += [page % (content, resources)] * pages
    kids = b" ".join(b"%d 0 R" % number for number in range(first, first + pages))
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (pages, kids)
    return assembled(objects)


def assembled(objects: list[bytes]) -> bytes:
    body = bytearray(b"%PDF-1.4\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(body)
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    body += b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, rows)
    body += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(body)


def real_documents(folder: Path) -> list[Path]:
    """The documents in the source package of pypdf: fonts, scripts, scans, encryption of all revisions, damage."""
    own = ROOT / ".tools" / "bin" / "uv"
    uv = shutil.which("uv") or (str(own) if own.is_file() else "")
    if not uv:
        if os.environ.get("CI"):
            pytest.fail("uv is missing; in CI nothing is skipped")
        pytest.skip("uv is neither on PATH nor in .tools")
    package = f"pypdf=={pypdf.__version__}"
    command = [uv, "tool", "run", "--quiet", "pip", "download", package, "--no-binary", "pypdf", "--no-deps", "-q"]
    done = subprocess.run([*command, "-d", str(folder)], capture_output=True, encoding="utf-8", timeout=200)
    assert done.returncode == 0, done.stderr[-2000:]
    (archive,) = folder.glob("pypdf-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return sorted(folder.glob("pypdf-*/resources/**/*.pdf"))
