"""The algorithms that encrypted columns use and python3-cryptography lacks: AES-256-GCM-SIV, HPKE, SipHash.

A part of read.py; written from RFC 8452, RFC 9180 and the SipHash paper.
"""
import hmac
import struct

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from sealed_files import expand

def aes(key, blocks):
    encryptor = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    return encryptor.update(blocks)

def polyval(h, data):
    """RFC 8452, section 3; numbers are little-endian."""
    field, key, sum_ = 1 | 1 << 121 | 1 << 126 | 1 << 127 | 1 << 128, int.from_bytes(h, "little"), 0
    for at in range(0, len(data), 16):
        sum_ ^= int.from_bytes(data[at : at + 16], "little")
        product = 0
        for bit in range(128):
            product ^= key if sum_ >> bit & 1 else 0
            product = (product ^ (field if product & 1 else 0)) >> 1
        sum_ = product
    return sum_.to_bytes(16, "little")

def pad(data):
    return data + bytes(-len(data) % 16)

def siv_keys(key, nonce):
    halves = [aes(key, struct.pack("<I", i) + nonce)[:8] for i in range(6)]
    return halves[0] + halves[1], b"".join(halves[2:])

def siv_tag(auth, enc, nonce, ad, plain):
    lengths = struct.pack("<QQ", 8 * len(ad), 8 * len(plain))
    sum_ = polyval(auth, pad(ad) + pad(plain) + lengths)
    block = bytearray(a ^ b for a, b in zip(sum_, nonce + bytes(4)))
    block[15] &= 0x7F
    return aes(enc, bytes(block))

def siv_stream(enc, tag, data):
    start, rest = struct.unpack("<I12s", tag)
    rest = rest[:11] + bytes([rest[11] | 0x80])
    count = -(-len(data) // 16)
    stream = aes(enc, b"".join(struct.pack("<I", (start + i) % (1 << 32)) + rest for i in range(count)))
    return bytes(a ^ b for a, b in zip(data, stream))

def siv_seal(key, nonce, ad, plain):
    """(tag, ciphertext)"""
    auth, enc = siv_keys(key, nonce)
    tag = siv_tag(auth, enc, nonce, ad, plain)
    return tag, siv_stream(enc, tag, plain)

def siv_open(key, nonce, ad, tag, sealed):
    auth, enc = siv_keys(key, nonce)
    plain = siv_stream(enc, tag, sealed)
    if siv_tag(auth, enc, nonce, ad, plain) != tag:
        raise InvalidTag
    return plain

def gcm_open(key, nonce, tag, sealed):
    return AESGCM(key).decrypt(nonce, sealed + tag, None)

def x25519_public(private):
    public = X25519PrivateKey.from_private_bytes(private).public_key()
    return public.public_bytes(Encoding.Raw, PublicFormat.Raw)

def labelled_extract(suite, salt, label, data):
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + data, "sha256")

def labelled_expand(suite, key, label, info, n):
    return expand(key, struct.pack(">H", n) + b"HPKE-v1" + suite + label + info, n)

class Hpke:
    """One end of an exchange in base mode: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-GCM."""
    def __init__(self, private, peer, encapsulated, receiver, info, aead=2):
        shared = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(peer))
        kem, self.suite = b"KEM\0\x20", b"HPKE" + struct.pack(">HHH", 32, 1, aead)
        secret = labelled_extract(kem, b"", b"eae_prk", shared)
        secret = labelled_expand(kem, secret, b"shared_secret", encapsulated + receiver, 32)
        context = b"\0" + labelled_extract(self.suite, b"", b"psk_id_hash", b"")
        context += labelled_extract(self.suite, b"", b"info_hash", info)
        secret = labelled_extract(self.suite, secret, b"secret", b"")
        expanded = lambda label, n: labelled_expand(self.suite, secret, label, context, n)
        self.aead, self.nonce = AESGCM(expanded(b"key", 16 * aead)), expanded(b"base_nonce", 12)
        self.exporter, self.count = expanded(b"exp", 32), 0

    def next(self):
        nonce = int.from_bytes(self.nonce, "big") ^ self.count
        self.count += 1
        return nonce.to_bytes(12, "big")

    def seal(self, ad, plain):
        return self.aead.encrypt(self.next(), plain, ad)

    def open(self, ad, sealed):
        return self.aead.decrypt(self.next(), sealed, ad)

    def export(self, context):
        return labelled_expand(self.suite, self.exporter, b"sec", context, 32)

def hpke_sender(ephemeral, receiver, info, aead=2):
    encapsulated = x25519_public(ephemeral)
    return encapsulated, Hpke(ephemeral, receiver, encapsulated, receiver, info, aead)

def hpke_receiver(private, encapsulated, info, aead=2):
    return Hpke(private, encapsulated, encapsulated, x25519_public(private), info, aead)

def siphash(key, data):
    """SipHash-2-4 of 64 bits."""
    mask, k0, k1 = (1 << 64) - 1, *struct.unpack("<QQ", key)
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    rotl = lambda x, n: (x << n | x >> 64 - n) & mask
    def rounds(count):
        for _ in range(count):
            for a, b, c, d, s, t in ((0, 1, 2, 3, 13, 16), (2, 1, 0, 3, 17, 21)):
                v[a] = v[a] + v[b] & mask
                v[b] = rotl(v[b], s) ^ v[a]
                v[a] = rotl(v[a], 32)
                v[c] = v[c] + v[d] & mask
                v[d] = rotl(v[d], t) ^ v[c]
    tail = data + bytes(-(len(data) + 1) % 8) + bytes([len(data) % 256])
    for (word,) in struct.iter_unpack("<Q", tail):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]
