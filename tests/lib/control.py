"""A pg_control that says something else: docs/format/files.md has the offsets.

    python3 control.py FILE OFFSET VALUE

Run below `pgseal exec -D DATADIR --`, it changes a sealed cluster's.
"""

import struct
import sys
from pathlib import Path

CRC_AT = {1300: 288, 1700: 288, 1800: 292, 1905: 308}


def crc32c(data):
    """CRC-32C, as PostgreSQL computes it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def change(path, offset, value):
    """Puts a u32 into the file, and makes its CRC anew."""
    page = bytearray(path.read_bytes())
    crc_at = CRC_AT[struct.unpack_from("<I", page, 8)[0]]
    assert struct.unpack_from("<I", page, crc_at)[0] == crc32c(page[:crc_at]), f"{path} is damaged or sealed"
    struct.pack_into("<I", page, offset, value)
    struct.pack_into("<I", page, crc_at, crc32c(page[:crc_at]))
    path.write_bytes(page)


if __name__ == "__main__":
    change(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
