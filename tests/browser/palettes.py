"""Small PNG files of what Chromium photographs: 256 colours, each picture half the size. No imaging library needed."""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from typing import Final

SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
COLOURS: Final = 256
_TRUE_COLOUR, _PALETTE = 2, 3  # PNG specification (ISO/IEC 15948), section 11.2.2
_BYTES: Final = 3  # of a pixel: red, green, blue


def reduce_colours(picture: bytes) -> bytes:
    """Return a PNG of 8-bit true colour with 256 of its colours, the others as the nearest of them.

    Raises ValueError for any other kind of picture.
    """
    chunks = _chunks(picture)
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    if (depth, kind, interlaced) != (8, _TRUE_COLOUR, 0):
        raise ValueError(f"not 8-bit true colour without interlacing: depth {depth}, type {kind}")
    lines = _lines(zlib.decompress(chunks[b"IDAT"]), width * _BYTES)
    pixels = [[line[at : at + _BYTES] for at in range(0, len(line), _BYTES)] for line in lines]
    counted = Counter(pixel for line in pixels for pixel in line)
    palette = _palette(counted)
    places = {colour: _nearest(palette, colour) for colour in counted}
    data = b"".join(b"\0" + bytes(places[pixel] for pixel in line) for line in pixels)
    return SIGNATURE + b"".join(
        [
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, _PALETTE, 0, 0, 0)),
            _chunk(b"PLTE", b"".join(palette)),
            _chunk(b"IDAT", zlib.compress(data, 9)),
            _chunk(b"IEND", b""),
        ]
    )


def _palette(counted: Counter[bytes]) -> list[bytes]:
    """Return the commonest colour of every shade, so that few pixels of a bright one do not turn grey, then others."""
    common = [colour for colour, _ in counted.most_common()]
    shades: dict[bytes, bytes] = {}
    for colour in common:
        shades.setdefault(bytes(part >> 4 for part in colour), colour)
    return list(dict.fromkeys([*shades.values(), *common]))[:COLOURS]


def _nearest(palette: list[bytes], colour: bytes) -> int:
    def distance(place: int) -> int:
        return sum((one - other) ** 2 for one, other in zip(palette[place], colour, strict=True))

    return min(range(len(palette)), key=distance)


def _chunks(picture: bytes) -> dict[bytes, bytes]:
    """Return the chunks by type, those of the same type joined."""
    if not picture.startswith(SIGNATURE):
        raise ValueError("not a PNG")
    found: dict[bytes, bytes] = {}
    at = len(SIGNATURE)
    while at < len(picture):
        size, kind = struct.unpack(">I4s", picture[at : at + 8])
        found[kind] = found.get(kind, b"") + picture[at + 8 : at + 8 + size]
        at += size + 12
    return found


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _lines(data: bytes, width: int) -> list[bytes]:
    """Undo the filters of the lines (section 9.2 of the specification)."""
    lines: list[bytes] = []
    above = bytes(width)
    for start in range(0, len(data), width + 1):
        line = bytearray(data[start + 1 : start + 1 + width])
        for at in range(width):
            left = line[at - _BYTES] if at >= _BYTES else 0
            corner = above[at - _BYTES] if at >= _BYTES else 0
            line[at] = (line[at] + _predicted(data[start], left, above[at], corner)) & 255
        above = bytes(line)
        lines.append(above)
    return lines


def _predicted(kind: int, left: int, up: int, corner: int) -> int:
    if kind < 4:
        return (0, left, up, (left + up) // 2)[kind]
    estimate = left + up - corner
    return min((left, up, corner), key=lambda value: abs(estimate - value))
