"""Documents of Nitro Enclaves under a root of our own."""

import hashlib

from mint_der import Ecdsa, authority, certificate, extension, tlv

NOW = 1_800_000_000
DAY = 86_400
LONG = (NOW - DAY, NOW + 1000 * DAY)
SHORT = (NOW - 600, NOW + 3 * 3600)
REPORT_DATA = bytes(range(64))
PCRS = {number: bytes([number + 1]) * 48 for number in (0, 1, 2, 3, 4, 8)}


def head(kind, value):
    if value < 24:
        return bytes([kind << 5 | value])
    width = 0 if value < 256 else 1 if value < 65536 else 2 if value < 1 << 32 else 3
    return bytes([kind << 5 | 24 + width]) + value.to_bytes(1 << width, "big")


class Pairs(list):
    """A map, as pairs: a name may stand there twice."""


def cbor(value):
    if value is None:
        return b"\xf6"
    if isinstance(value, int):
        return head(0, value) if value >= 0 else head(1, -1 - value)
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    if isinstance(value, str):
        return head(3, len(value)) + value.encode()
    if isinstance(value, list) and not isinstance(value, Pairs):
        return head(4, len(value)) + b"".join(map(cbor, value))
    pairs = value if isinstance(value, Pairs) else list(value.items())
    return head(5, len(pairs)) + b"".join(cbor(key) + cbor(item) for key, item in pairs)


class Maker:
    """AWS, as it were: a root, three authorities below it, and the key of an instance."""

    def __init__(self, names=("aws.nitro-enclaves", "region", "zone", "instance")):
        self.names = names
        self.keys = [Ecdsa() for _ in names]
        self.key = Ecdsa()
        self.bundle = [self.authority(place) for place in range(len(names))]
        self.leaf = self.certify()

    def authority(self, place, dates=LONG, extensions=None, signer=None):
        above = max(place - 1, 0)
        extensions = authority(len(self.names) - place) if extensions is None else extensions
        signer = signer or self.keys[above]
        return certificate(self.names[place], self.names[above], signer, self.keys[place], dates,
                           extensions)

    def certify(self, dates=SHORT, key=None):
        usage = extension("2.5.29.15", tlv(3, b"\x07\x80"), True)
        return certificate("enclave", self.names[-1], self.keys[-1], key or self.key, dates,
                           [usage])

    def fields(self, **changes):
        fields = dict(
            module_id="i-0-enc0", digest="SHA384", timestamp=NOW * 1000, pcrs=dict(PCRS),
            certificate=self.leaf, cabundle=self.bundle, public_key=None,
            user_data=REPORT_DATA, nonce=None,
        )
        fields.update(changes)
        return fields

    def document(self, fields=None, key=None, protected=None, unprotected=None, start=b""):
        payload = cbor(self.fields() if fields is None else fields)
        protected = cbor({1: -35}) if protected is None else protected
        signed = cbor(["Signature1", protected, b"", payload])
        signature = (key or self.key).raw(signed)
        return start + cbor([protected, unprotected or {}, payload, signature])

    def policy(self, more="", pcr0=PCRS[0]):
        root = hashlib.sha256(self.bundle[0]).hexdigest()
        return f'[nitro]\nroot = "{root}"\nmeasurements = [{{ pcr0 = "{pcr0.hex()}"{more} }}]\n'


def of_documents(maker):
    """Cases that differ in the document."""
    good = maker.document()

    def case(name, expect, evidence=None, policy=None, **changes):
        evidence = evidence or (maker.document(maker.fields(**changes)) if changes else good)
        policy = maker.policy() if policy is None else policy
        return dict(name=name, expect=expect, evidence=evidence.hex(), policy=policy)

    def accepted(number, value):
        return maker.policy(f', pcr{number} = "{value.hex()}"')

    twice = Pairs([*maker.fields().items(), ("user_data", bytes(64))])
    zeros = {number: bytes(48) for number in range(16)}
    named = {**PCRS, 5: bytes(48)}
    return [
        case("as it should be", "accepted"),
        case("a register of zeros beside it", "accepted", pcrs=named),
        *(case(f"PCR{n} as accepted", "accepted", policy=accepted(n, PCRS[n])) for n in (1, 2, 4)),
        *(case(f"another PCR{n}", "Measurement", policy=accepted(n, PCRS[0]))
          for n in (1, 2, 3, 4, 8)),
        case("another PCR0", "Measurement", policy=maker.policy(pcr0=PCRS[1])),
        case("no measurement", "Measurement",
             policy=maker.policy().replace(f'{{ pcr0 = "{PCRS[0].hex()}" }}', "")),
        case("debug", "Debug", pcrs=zeros),
        case("debug, and zeros are accepted", "Debug", pcrs=zeros,
             policy=maker.policy(pcr0=bytes(48))),
        case("no registers", "Debug", pcrs={}),
        case("not allowed", "NotAllowed", policy=""),
        case("another digest", "Malformed", digest="SHA512"),
        case("nothing is bound", "Malformed", user_data=None),
        case("too little is bound", "Malformed", user_data=REPORT_DATA[:63]),
        case("short register", "Malformed", pcrs={0: bytes(47)}),
        case("no bundle", "Malformed", cabundle=[]),
        case("a field twice", "Malformed", maker.document(twice)),
        case("another algorithm", "Malformed", maker.document(protected=cbor({1: -7}))),
        case("no algorithm", "Malformed", maker.document(protected=b"")),
        case("a header that is not signed", "Malformed", maker.document(unprotected={4: b"1"})),
        case("tagged", "Malformed", maker.document(start=b"\xd2")),
        case("a longer length", "Malformed", b"\x98\x04" + good[1:]),
        case("a byte too long", "Malformed", good + b"\0"),
        case("truncated", "Malformed", good[:-1]),
        case("empty map", "Malformed", maker.document({})),
        case("signed with another key", "NotAuthentic", maker.document(key=Ecdsa())),
    ]


def of_chains(maker):
    """Cases that differ in the certificates."""
    old = (NOW - 2 * DAY, NOW - DAY - 1)
    root, region, zone, instance = maker.bundle
    stranger = Maker()

    def case(name, expect, bundle=None, leaf=None, key=None):
        fields = maker.fields(cabundle=bundle or maker.bundle, certificate=leaf or maker.leaf)
        document = maker.document(fields, key)
        return dict(name=name, expect=expect, evidence=document.hex(), policy=maker.policy())

    weak = Ecdsa(256)
    return [
        case("leaf is no longer valid", "Expired", leaf=maker.certify(old)),
        case("leaf is not valid yet", "Expired", leaf=maker.certify((NOW + 1, NOW + DAY))),
        case("authority is no longer valid", "Expired",
             [root, maker.authority(1, old), zone, instance]),
        case("chain of another root", "OtherRoot", stranger.bundle, stranger.leaf, stranger.key),
        case("chain of another root below this one", "NotAuthentic",
             [root, *stranger.bundle[1:]], stranger.leaf, stranger.key),
        case("authority may not issue", "NotAuthentic",
             [root, region, zone, maker.authority(3, extensions=[])]),
        case("authority may not issue authorities", "NotAuthentic",
             [root, maker.authority(1, extensions=authority(0)), zone, instance]),
        case("a link is missing", "OtherRoot", [root, region, instance]),
        case("root last", "OtherRoot", [region, zone, instance, root]),
        case("leaf of another key", "NotAuthentic", leaf=maker.certify(key=Ecdsa())),
        case("leaf of another curve", "Malformed", leaf=maker.certify(key=weak)),
        case("leaf is no certificate", "Malformed", leaf=b"\x30\x03\x02\x01\x01"),
    ]


def mint():
    maker = Maker()
    return dict(now=NOW, report_data=REPORT_DATA.hex(), good_until=SHORT[1],
                cases=of_documents(maker) + of_chains(maker))
