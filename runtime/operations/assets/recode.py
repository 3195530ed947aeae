"""Re-encodes an uploaded picture. Runs as a script in a separate process, which reads from standard input.

The uploader chooses the bytes, and the decoders are native code. So this process has no settings, no network
connection and no database, little memory and little time, and a low priority. Only the pixels remain: no metadata, no
further frames, no bytes after the end.

The output is one JSON line, {"type", "width", "height"} followed by the picture's bytes, or {"problem"}.
It imports nothing of the service.
"""

from __future__ import annotations

import io
import json
import os
import resource
import sys
import warnings
from typing import Final

from PIL import Image, ImageCms, ImageOps

FORMATS: Final = ("PNG", "JPEG", "WEBP")
PIXELS_MAX: Final = 24_000_000
"""The most pixels that are decoded: 96 MB as RGBA."""
SIDE_MAX: Final = 2_048
"""Larger pictures are scaled down to this width and height."""
STORED_BYTES_MAX: Final = 1024 * 1024
LOSSY: Final = ((1.0, 88), (1.0, 70), (0.7, 70), (0.5, 70))
"""(scale, quality) of each try until the picture is small enough."""
LOSSLESS: Final = ("PNG",)
LOSSLESS_BYTES_MAX: Final = 512 * 1024
"""Larger files are photos, whose lossless encoding takes seconds and is too large."""
MEMORY_BYTES: Final = 1024 * 1024 * 1024
SECONDS: Final = 10


class Refused(Exception):
    """The picture is not accepted; the message is the problem."""


def recoded(body: bytes) -> tuple[dict[str, object], bytes]:
    """The properties and bytes of the re-encoded picture. Raises Refused."""
    try:
        with Image.open(io.BytesIO(body), formats=FORMATS) as opened:
            width, height = opened.size
            if width * height > PIXELS_MAX:
                raise Refused(f"has {width} x {height} pixels: at most {PIXELS_MAX} are accepted")
            source = opened.format
            # JPEG: decodes at a half, a quarter or an eighth if that is enough.
            opened.draft("RGB", (SIDE_MAX, SIDE_MAX))
            upright = ImageOps.exif_transpose(opened)
            if upright.mode in ("1", "P"):  # Pillow scales these without smoothing.
                upright = upright.convert("RGBA" if upright.has_transparency_data else "RGB")
            upright.thumbnail((SIDE_MAX, SIDE_MAX), Image.Resampling.LANCZOS)
            upright = _in_srgb(upright)
            transparent = upright.has_transparency_data
            picture = upright.convert("RGBA" if transparent else "RGB")
    except Refused:
        raise
    except MemoryError:
        raise Refused("needs too much memory to decode") from None
    except Exception:  # Pillow raises errors of many types for broken files.
        raise Refused("is not a complete PNG, JPEG or WebP picture") from None
    drawn = source in LOSSLESS and len(body) <= LOSSLESS_BYTES_MAX
    stored, encoded = _encoded(picture, lossless=drawn)
    return {"type": "image/webp", "width": stored.width, "height": stored.height}, encoded


def _in_srgb(picture: Image.Image) -> Image.Image:
    """The picture in the colours of the web, because its own profile is not stored."""
    profile = picture.info.get("icc_profile")
    if not profile or picture.mode not in ("RGB", "CMYK"):
        return picture
    try:
        own = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        converted = ImageCms.profileToProfile(picture, own, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except (OSError, ImageCms.PyCMSError):
        return picture
    return converted or picture


def _encoded(picture: Image.Image, *, lossless: bool) -> tuple[Image.Image, bytes]:
    """The stored picture, and its WebP of at most STORED_BYTES_MAX. lossless: if that is small enough."""
    if lossless and len(body := _webp(picture, lossless=True)) <= LOSSLESS_BYTES_MAX:
        return picture, body
    for scale, quality in LOSSY:
        smaller = picture.resize((max(1, int(picture.width * scale)), max(1, int(picture.height * scale))))
        if len(body := _webp(smaller, quality=quality)) <= STORED_BYTES_MAX:
            return smaller, body
    raise Refused(f"is larger than {STORED_BYTES_MAX} bytes after re-encoding: scale it down")


def _webp(picture: Image.Image, **how: int) -> bytes:
    written = io.BytesIO()
    picture.save(written, "WEBP", method=3, **how)  # Without metadata: it is written only if it is given here.
    return written.getvalue()


def main() -> None:
    """Reads a picture from standard input, and writes the result to standard output."""
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    Image.MAX_IMAGE_PIXELS = None  # `recoded` has its own limit, before anything is decoded.
    warnings.simplefilter("ignore")
    try:
        about, body = recoded(sys.stdin.buffer.read())
    except Refused as refused:
        about, body = {"problem": str(refused)}, b""
    sys.stdout.buffer.write(json.dumps(about).encode() + b"\n" + body)


if __name__ == "__main__":
    main()
