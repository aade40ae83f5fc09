"""Reports of SEV-SNP under a root of our own."""

import struct

from mint_der import Ecdsa, Rsa, authority, certificate, extension, integer

NOW = 1_800_000_000
DAY = 86_400
VALID = (NOW - DAY, NOW + DAY)
CHIP = bytes(range(1, 65))
MEASUREMENT = bytes([0xAB]) * 48
REPORT_DATA = bytes(range(64))
AMD = "1.3.6.1.4.1.3704.1."
POLICY = f"""[sev-snp]
measurements = ["{'00' * 48}", "{MEASUREMENT.hex()}"]
[sev-snp.minimum-tcb]
milan = {{ bootloader = 3, tee = 0, snp = 8, microcode = 115 }}
"""


def report(key, **changes):
    """A signed report."""
    said = dict(version=3, policy=0x30000, vmpl=0, algorithm=1, flags=0, chip=CHIP,
                tcb=bytes([3, 0, 0, 0, 0, 0, 8, 115]))
    said.update(changes)
    out = bytearray(1184)
    struct.pack_into("<IIQ", out, 0, said["version"], 0, said["policy"])
    struct.pack_into("<II", out, 0x30, said["vmpl"], said["algorithm"])
    struct.pack_into("<I", out, 0x48, said["flags"])
    out[0x50:0x90] = REPORT_DATA
    out[0x90:0xC0] = MEASUREMENT
    out[0x180:0x188] = said["tcb"]
    out[0x1A0:0x1E0] = said["chip"]
    r, s = key.numbers(bytes(out[:0x2A0]))
    out[0x2A0:0x2E8] = r.to_bytes(72, "little")
    out[0x2E8:0x330] = s.to_bytes(72, "little")
    return bytes(out)


def marks(tcb=(3, 0, 8, 115), chip=CHIP, cloud=None, fmc=None):
    """What a certificate of AMD says of the chip and its firmware."""
    parts = list(zip("1238", tcb)) + ([] if fmc is None else [("9", fmc)])
    out = [extension(f"{AMD}3.{number}", integer(value)) for number, value in parts]
    if chip is not None:
        out.append(extension(AMD + "4", chip))
    if cloud is not None:
        out.append(extension(AMD + "5", b"\x16" + bytes([len(cloud)]) + cloud))
    return out


class Maker:
    """AMD, as it were."""

    def __init__(self):
        self.root, self.below, self.chip = Rsa(), Rsa(), Ecdsa()
        self.ark = certificate("ARK", "ARK", self.root, self.root, VALID, authority())
        self.ask = self.issue(authority(0))
        self.vcek = self.leaf()

    def issue(self, extensions, dates=VALID, subject="ASK", issuer="ARK", signer=None):
        return certificate(subject, issuer, signer or self.root, self.below, dates, extensions)

    def leaf(self, extensions=None, dates=VALID, key=None, issuer="ASK"):
        extensions = marks() if extensions is None else extensions
        return certificate("VCEK", issuer, self.below, key or self.chip, dates, extensions)


def of_reports(maker):
    """Cases that differ in the report."""
    plain = report(maker.chip)

    def case(name, expect, evidence, policy=POLICY):
        evidence = evidence + maker.vcek
        return dict(name=name, expect=expect, evidence=evidence.hex(), policy=policy)

    def changed(**changes):
        return report(maker.chip, **changes)

    pinned, other = ((f'chips = ["{chip.hex()}"]\n') for chip in (CHIP, CHIP[::-1]))
    table = "[sev-snp.minimum-tcb]"
    return [
        case("as it should be", "accepted", plain),
        case("version 2", "accepted", changed(version=2)),
        case("its chip is pinned", "accepted", plain, POLICY.replace(table, pinned + table)),
        case("another chip is pinned", "Platform", plain, POLICY.replace(table, other + table)),
        case("debug", "Debug", changed(policy=0xB0000)),
        case("migration agent", "Migration", changed(policy=0x70000)),
        case("less privileged", "Privilege", changed(vmpl=2)),
        case("level that is trusted", "accepted", changed(vmpl=2),
             POLICY.replace(table, "maximum-vmpl = 2\n" + table)),
        case("another measurement", "Measurement", plain, POLICY.replace("abab", "abac")),
        case("no measurement", "Measurement", plain,
             POLICY.replace(POLICY.splitlines()[1], "measurements = []")),
        case("microcode too old", "Tcb", plain, POLICY.replace("115", "116")),
        case("boot loader too old", "Tcb", plain, POLICY.replace("loader = 3", "loader = 4")),
        case("another processor", "Platform", plain, POLICY.replace("milan", "genoa")),
        case("not allowed", "NotAllowed", plain, ""),
        case("firmware is not the certificate's", "OtherCertificate",
             changed(tcb=bytes([4, 0, 0, 0, 0, 0, 8, 115]))),
        case("chip is not the certificate's", "OtherCertificate", changed(chip=CHIP[::-1])),
        case("masked chip", "OtherCertificate", changed(chip=bytes(64))),
        case("says it is signed with a cloud's key", "OtherCertificate", changed(flags=4)),
        case("signed with no known key", "Malformed", changed(flags=28)),
        case("a later layout", "UnknownVersion", changed(version=6)),
        case("an earlier layout", "UnknownVersion", changed(version=1)),
        case("another algorithm", "Malformed", changed(algorithm=2)),
        case("signed with another key", "NotAuthentic", report(Ecdsa())),
        case("truncated", "Malformed", plain[:1183]),
        case("a byte too long", "Malformed", plain + b"\0"),
    ]


def of_chains(maker):
    """Cases that differ in the certificates."""
    old = (NOW - 2 * DAY, NOW - DAY - 1)
    late = (NOW + 1, NOW + DAY)
    stranger = Rsa()
    odd = marks() + [extension("1.2.3.4", b"\x05\x00", True)]

    def case(name, expect, *chain, key=None, policy=POLICY, **changes):
        evidence = b"".join([report(key or maker.chip, **changes), *chain])
        return dict(name=name, expect=expect, evidence=evidence.hex(), policy=policy)

    cloud = maker.leaf(marks(chip=None, cloud=b"aws"))
    weak = Ecdsa(256)
    lent = POLICY.replace("[sev-snp.min", "vlek = true\n[sev-snp.min")
    return [
        case("issuer is carried", "accepted", maker.vcek, maker.ask),
        case("no certificate", "Missing"),
        case("root is carried too", "Malformed", maker.vcek, maker.ask, maker.ark),
        case("cloud's key, allowed", "accepted", cloud, policy=lent, flags=4),
        case("cloud's key, not allowed", "Platform", cloud, flags=4),
        case("cloud's certificate, chip's report", "OtherCertificate", cloud, policy=lent),
        case("certificate is no longer valid", "Expired", maker.leaf(dates=old)),
        case("certificate is not valid yet", "Expired", maker.leaf(dates=late)),
        case("issuer is no longer valid", "Expired", maker.vcek, maker.issue(authority(0), old)),
        case("issuer may not issue", "NotAuthentic", maker.vcek, maker.issue([])),
        case("issuer is signed by a stranger", "NotAuthentic", maker.vcek,
             maker.issue(authority(0), signer=stranger)),
        case("issuer is of another root", "OtherRoot", maker.vcek,
             maker.issue(authority(0), issuer="ARK of others")),
        case("certificate is of another issuer", "OtherRoot", maker.leaf(issuer="ASK of others")),
        case("demands what is not known", "Malformed", maker.leaf(odd)),
        case("says a thing twice", "Malformed", maker.leaf(marks() + marks())),
        case("key of another curve", "Malformed", maker.leaf(key=weak)),
        case("no firmware in the certificate", "OtherCertificate", maker.leaf([])),
        case("report stands for a certificate", "Malformed", report(maker.chip)),
    ]


def mint():
    maker = Maker()
    cases = of_reports(maker) + of_chains(maker)
    return dict(now=NOW, ark=maker.ark.hex(), ask=maker.ask.hex(), kind="Milan",
                report_data=REPORT_DATA.hex(), cases=cases)


def turin():
    """The other layout of firmware versions and chips."""
    maker = Maker()
    chip = CHIP[:8]
    leaf = maker.leaf(marks((1, 2, 3, 80), chip, fmc=1))
    words = dict(chip=chip + bytes(56), tcb=bytes([1, 1, 2, 3, 0, 0, 0, 80]))
    table = "turin = { bootloader = 1, tee = 2, snp = 3, microcode = 80, fmc = 1 }"
    policy = POLICY.replace(POLICY.splitlines()[3], table)

    def case(name, expect, policy=policy, **changes):
        evidence = report(maker.chip, **{**words, **changes}) + leaf
        return dict(name=name, expect=expect, evidence=evidence.hex(), policy=policy)

    cases = [
        case("as it should be", "accepted"),
        case("first code too old", "Tcb", policy.replace("fmc = 1", "fmc = 2")),
        case("chip with more bytes", "OtherCertificate", chip=chip + bytes(55) + b"\1"),
        case("layout of Milan", "OtherCertificate", tcb=bytes([1, 2, 0, 0, 0, 0, 3, 80])),
    ]
    return dict(now=NOW, ark=maker.ark.hex(), ask=maker.ask.hex(), kind="Turin",
                report_data=REPORT_DATA.hex(), cases=cases)
