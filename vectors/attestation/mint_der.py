"""DER and certificates for minted evidence: as little as the cases need, and wrong where asked."""

import datetime

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

SHA384 = "2.16.840.1.101.3.4.2.2"


def tlv(tag, *parts):
    body = b"".join(parts)
    if len(body) < 128:
        return bytes([tag, len(body)]) + body
    length = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + body


def seq(*parts):
    return tlv(0x30, *parts)


def integer(value):
    return tlv(2, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def oid(text):
    first, second, *rest = (int(part) for part in text.split("."))
    out = bytearray([first * 40 + second])
    for arc in rest:
        groups = [arc & 127]
        while arc := arc >> 7:
            groups.append(arc & 127 | 128)
        out += bytes(reversed(groups))
    return tlv(6, bytes(out))


def octets(value):
    return tlv(4, value)


def bits(value):
    return tlv(3, b"\0", value)


def name(common):
    return seq(tlv(0x31, seq(oid("2.5.4.3"), tlv(0x0C, common.encode()))))


def time(seconds):
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return tlv(0x17, moment.strftime("%y%m%d%H%M%SZ").encode())


def extension(number, value, critical=False):
    return seq(oid(number), tlv(1, b"\xff") if critical else b"", octets(value))


def authority(depth=None):
    """The extensions of who may issue certificates."""
    limit = b"" if depth is None else integer(depth)
    constraints = extension("2.5.29.19", seq(tlv(1, b"\xff"), limit), True)
    return [constraints, extension("2.5.29.15", tlv(3, b"\x01\x06"), True)]


class Rsa:
    """A key that signs as AMD's do: RSASSA-PSS with SHA-384."""

    def __init__(self):
        self.key = rsa.generate_private_key(65537, 2048)
        sha384 = seq(oid(SHA384), b"\x05\x00")
        mask = seq(oid("1.2.840.113549.1.1.8"), sha384)
        parts = tlv(0xA0, sha384), tlv(0xA1, mask), tlv(0xA2, integer(48))
        self.algorithm = seq(oid("1.2.840.113549.1.1.10"), seq(*parts))

    def sign(self, message):
        hashed = hashes.SHA384()
        return self.key.sign(message, padding.PSS(padding.MGF1(hashed), 48), hashed)


class Ecdsa:
    """A key over P-384 with SHA-384, or P-256 with SHA-256."""

    def __init__(self, size=384):
        curve, self.hash, number = {
            384: (ec.SECP384R1(), hashes.SHA384(), "1.2.840.10045.4.3.3"),
            256: (ec.SECP256R1(), hashes.SHA256(), "1.2.840.10045.4.3.2"),
        }[size]
        self.size = size // 8
        self.key = ec.generate_private_key(curve)
        self.algorithm = seq(oid(number))

    def sign(self, message):
        return self.key.sign(message, ec.ECDSA(self.hash))

    def numbers(self, message):
        """The signature as its two numbers."""
        return utils.decode_dss_signature(self.sign(message))

    def raw(self, message):
        return b"".join(number.to_bytes(self.size, "big") for number in self.numbers(message))

    def point(self):
        form = serialization.PublicFormat.UncompressedPoint
        return self.key.public_key().public_bytes(serialization.Encoding.X962, form)


def public(key):
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.key.public_key().public_bytes(serialization.Encoding.DER, form)


def certificate(subject, issuer, signer, key, dates, extensions=()):
    """A certificate of `key`, named and signed as said."""
    tbs = seq(
        tlv(0xA0, integer(2)), integer(1), signer.algorithm, name(issuer),
        seq(time(dates[0]), time(dates[1])), name(subject), public(key),
        tlv(0xA3, seq(*extensions)) if extensions else b"",
    )
    return seq(tbs, signer.algorithm, bits(signer.sign(tbs)))


def revocations(issuer, signer, dates, serials=()):
    """A list of revoked certificates."""
    entries = seq(*(seq(integer(one), time(dates[0])) for one in serials)) if serials else b""
    key_id = extension("2.5.29.35", seq(tlv(0x80, bytes(20))))
    number = extension("2.5.29.20", integer(1))
    tbs = seq(
        integer(1), signer.algorithm, name(issuer), time(dates[0]), time(dates[1]), entries,
        tlv(0xA0, seq(key_id, number)),
    )
    return seq(tbs, signer.algorithm, bits(signer.sign(tbs)))
