"""BLAKE3 against the published test vectors (input byte i is i mod 251)."""

import pytest

from aisimulate.workload.digest import blake3_hex

VECTORS = {
    0: "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
    1: "2d3adedff11b61f1",
    63: "e9bc37a594daad83",
    64: "4eed7141ea4a5cd4",
    65: "de1e5fa0be70df6d",
    1023: "10108970eeda3eb9",
    1024: "42214739f095a406",
    1025: "d00278ae47eb27b3",
    2048: "e776b6028c7cd22a",
    2049: "5f4d72f40d7a5f82",
    31744: "62b6960e1a44bcc1",
    102400: "bc3e3d41a1146b06",
}


@pytest.mark.parametrize("size", VECTORS)
def test_the_published_vectors(size):
    hashed = blake3_hex(bytes(index % 251 for index in range(size)))
    assert len(hashed) == 64
    assert hashed.startswith(VECTORS[size])


def test_a_word():
    assert blake3_hex(b"abc") == "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"
