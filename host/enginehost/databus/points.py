"""Which 32 bytes are a public key of Ed25519 that only one can sign with (RFC 8032, 5.1.3)."""

from __future__ import annotations

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_ROOT = pow(2, (_P - 1) // 4, _P)
"""A square root of -1."""

_Point = tuple[int, int]
_NEUTRAL: _Point = (0, 1)


def is_good_point(encoded: bytes) -> bool:
    """Whether it is a point of the curve, in its one right encoding, whose order is not small.

    Under a key of small order (1, 2, 4 or 8) signatures can be made without any private key.
    """
    point = _decoded(encoded)
    if point is None:
        return False
    for _ in range(3):
        point = _doubled(point)
    return point != _NEUTRAL


def _decoded(encoded: bytes) -> _Point | None:
    number = int.from_bytes(encoded, "little")
    odd, y = number >> 255, number & (2**255 - 1)
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(square, (_P + 3) // 8, _P)
    if x * x % _P != square:
        x = x * _ROOT % _P
    if x * x % _P != square or (x == 0 and odd):
        return None
    return (x if x & 1 == odd else _P - x), y


def _doubled(point: _Point) -> _Point:
    x, y = point
    part = _D * x * x * y * y % _P
    return (2 * x * y) * pow(1 + part, -1, _P) % _P, (y * y + x * x) * pow(1 - part, -1, _P) % _P
