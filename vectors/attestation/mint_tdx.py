"""Quotes of TDX under a root of our own, with the collateral that Intel would publish."""

import base64
import datetime
import hashlib
import json
import struct

from mint_der import (Ecdsa, authority, certificate, extension, integer, octets, oid,
                      revocations, seq, tlv)

NOW = 1_800_000_000
DAY = 86_400
VALID = (NOW - DAY, NOW + DAY)
OLD = (NOW - 2 * DAY, NOW - DAY)
REPORT_DATA = bytes(range(64))
MRTD = bytes([0xA1]) * 48
RTMR = [bytes([number + 1]) * 48 for number in range(4)]
PPID = bytes(range(16))
FMSPC = bytes([0x90, 0xC0, 0x6F, 0, 0, 0])
SECURE = 1 << 28  # SEPT_VE_DISABLE, without which no domain is taken
SGX = "1.2.840.113741.1.13.1"
REGISTERS = "".join(f', rtmr{number} = "{value.hex()}"' for number, value in enumerate(RTMR))
POLICY = f'[tdx]\nmeasurements = [{{ mrtd = "{MRTD.hex()}"{REGISTERS} }}]\n'


def date(seconds):
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def platform():
    """What a certificate of a platform's key says of it."""
    def part(number, value):
        return seq(oid(f"{SGX}.{number}"), value)

    levels = [part(f"2.{number}", integer(5)) for number in range(1, 17)]
    levels += [part("2.17", integer(11)), part("2.18", octets(bytes([5]) * 16))]
    return extension(SGX, seq(
        part("1", octets(PPID)), part("2", seq(*levels)), part("3", octets(bytes(2))),
        part("4", octets(FMSPC)), part("5", tlv(10, b"\1")),
    ))


def pem(*ders):
    def one(der):
        text = base64.b64encode(der).decode()
        lines = "\n".join(text[at:at + 64] for at in range(0, len(text), 64))
        return f"-----BEGIN CERTIFICATE-----\n{lines}\n-----END CERTIFICATE-----\n"
    return "".join(map(one, ders))


class Maker:
    """Intel, as it were."""

    def __init__(self):
        self.keys = {name: Ecdsa(256) for name in ("root", "below", "pck", "signer", "enclave")}
        self.root = self.certify("root", "root", authority(1))
        self.below = self.certify("below", "root", authority(0))
        self.pck = self.certify("pck", "below", [platform(), *self.leaf()])
        self.signer = self.certify("signer", "root", self.leaf())

    def leaf(self):
        usage = extension("2.5.29.15", tlv(3, b"\x06\xc0"), True)
        return [usage, extension("2.5.29.19", seq(), True)]

    def certify(self, subject, issuer, extensions, dates=VALID):
        names = {"root": "Root CA", "below": "Platform CA", "pck": "PCK", "signer": "Signing"}
        return certificate(names[subject], names[issuer], self.keys[issuer], self.keys[subject],
                           dates, extensions)

    def quote(self, attributes=SECURE, pck=None, chain=None, report_key=None, **changes):
        said = dict(mrtd=MRTD, rtmr=RTMR, tee=0x81, pad=b"", version=4)
        said.update(changes)
        vendor = bytes.fromhex("939a7233f79c4ca9940a0db3957f0607")
        header = struct.pack("<HHIHH", said["version"], 2, said["tee"], 0, 0) + vendor + bytes(20)
        body = bytes([5, 0]) + bytes([5]) * 14 + bytes(96 + 8)
        body += attributes.to_bytes(8, "little") + bytes(8)
        body += said["mrtd"] + bytes(3 * 48) + b"".join(said["rtmr"]) + REPORT_DATA
        signed = header + body
        key = self.keys["enclave"]
        own = bytes(range(32))
        bound = hashlib.sha256(key.point()[1:] + own).digest() + bytes(32)
        enclave = self.enclave(bound)
        chain = pem(pck or self.pck, *(chain or [self.below, self.root])).encode() + b"\0"
        inner = enclave + self.keys["pck"].raw(enclave) + struct.pack("<H", 32) + own
        inner += struct.pack("<HI", 5, len(chain)) + chain
        auth = (report_key or key).raw(signed) + key.point()[1:]
        auth += struct.pack("<HI", 6, len(inner)) + inner
        return signed + struct.pack("<I", len(auth)) + auth + said["pad"]

    def enclave(self, bound):
        """The quoting enclave's report."""
        parts = bytes(16 + 4 + 28) + b"\x11" + bytes(15) + bytes(64) + b"\xdc" * 32 + bytes(96)
        return parts + struct.pack("<HH", 2, 4) + bytes(60) + bound

    def collateral(self, status="UpToDate", dates=VALID, revoked=(), signer=None, **changes):
        numbers = dict(evaluation=17, enclave="UpToDate", fmspc=FMSPC.hex())
        numbers.update(changes)
        published = dict(issueDate=date(dates[0]), nextUpdate=date(dates[1]),
                         tcbEvaluationDataNumber=numbers["evaluation"])
        zeros, parts = "00" * 48, [{"svn": 5}] * 16
        module = [{"svn": 5}, {"svn": 0}, *parts[2:]]
        level = dict(tcb=dict(sgxtcbcomponents=parts, pcesvn=11, tdxtcbcomponents=module),
                     tcbDate=date(NOW - DAY), tcbStatus=status)
        info = dict(
            id="TDX", version=3, **published, fmspc=numbers["fmspc"], pceId="0000", tcbType=0,
            tdxModule=dict(mrsigner=zeros, attributes="00" * 8, attributesMask="ff" * 8),
            tcbLevels=[level],
        )
        identity = dict(
            id="TD_QE", version=2, **published, miscselect="00" * 4, miscselectMask="ff" * 4,
            attributes="11" + "00" * 15, attributesMask="fb" + "ff" * 7 + "00" * 8,
            mrsigner="dc" * 32, isvprodid=2,
            tcbLevels=[dict(tcb=dict(isvsvn=4), tcbDate=date(NOW - DAY),
                            tcbStatus=numbers["enclave"])],
        )
        info, identity = json.dumps(info), json.dumps(identity)
        key, signers = signer or self.keys["signer"], pem(self.signer, self.root)
        return json.dumps(dict(
            pck_crl_issuer_chain=pem(self.below, self.root),
            root_ca_crl=revocations("Root CA", self.keys["root"], dates).hex(),
            pck_crl=revocations("Platform CA", self.keys["below"], dates, revoked).hex(),
            tcb_info_issuer_chain=signers, tcb_info=info,
            tcb_info_signature=key.raw(info.encode()).hex(),
            qe_identity_issuer_chain=signers, qe_identity=identity,
            qe_identity_signature=key.raw(identity.encode()).hex(),
        ))


def of_quotes(maker, case):
    """Cases that differ in the quote."""
    def changed(old, new):
        return POLICY.replace(old, new)

    odd_chain = maker.quote().replace(b"-----\n-----BEGIN", b"-----\n\n-----BEGIN")
    other = Maker()
    return [
        case("as it should be", "accepted"),
        case("zeros follow", "accepted", maker.quote(pad=bytes(70))),
        case("something follows", "Malformed", maker.quote(pad=b"\1")),
        case("a register may be any", "accepted", maker.quote(rtmr=[*RTMR[:3], bytes(48)]),
             changed(RTMR[3].hex(), "any")),
        *(case(f"another RTMR{number}", "Measurement", None, changed(RTMR[number].hex(), "bb" * 48))
          for number in range(4)),
        case("another MRTD", "Measurement", None, changed(MRTD.hex(), "bb" * 48)),
        case("debug", "Debug", maker.quote(SECURE | 1)),
        case("profiling", "Debug", maker.quote(SECURE | 16)),
        case("reserved", "Quote", maker.quote(SECURE | 128)),
        case("migratable", "Migration", maker.quote(SECURE | 1 << 29)),
        case("exceptions are not disabled", "Quote", maker.quote(0)),
        case("its platform is pinned", "accepted", None, POLICY + f'chips = ["{PPID.hex()}"]\n'),
        case("another platform is pinned", "Platform", None, POLICY + f'chips = ["{"07" * 16}"]\n'),
        case("not allowed", "NotAllowed", None, ""),
        case("an enclave of SGX", "Malformed", maker.quote(tee=0)),
        case("a later layout", "Malformed", maker.quote(version=6)),
        case("truncated", "Malformed", maker.quote()[:-1]),
        case("signed with another key", "Quote", maker.quote(report_key=Ecdsa(256))),
        case("chain spelt otherwise", "Malformed", odd_chain),
        case("chain of another root", "Malformed", other.quote()),
        case("chain of another root below this one", "Quote",
             other.quote(chain=[other.below, maker.root])),
        case("certificate is no longer valid", "Quote", maker.quote(
            pck=maker.certify("pck", "below", [platform(), *maker.leaf()], OLD))),
        case("authority is no longer valid", "Quote", maker.quote(
            chain=[maker.certify("below", "root", authority(0), OLD), maker.root])),
    ]


def of_collateral(maker, case):
    """Cases that differ in what is published."""
    lenient = POLICY + 'statuses = ["UpToDate", "OutOfDate"]\n'
    return [
        case("firmware has known faults", "Tcb", status="OutOfDate"),
        case("firmware has known faults, allowed", "accepted", None, lenient, status="OutOfDate"),
        case("to be hardened, not allowed", "Tcb", None, lenient, status="SWHardeningNeeded"),
        case("quoting enclave has known faults", "Tcb", enclave="OutOfDate"),
        case("firmware is revoked", "Quote", None, lenient, status="Revoked"),
        case("evaluation is new enough", "accepted", None, POLICY + "minimum-evaluation = 17\n"),
        case("evaluation is too old", "Tcb", None, POLICY + "minimum-evaluation = 18\n"),
        case("collateral is no longer valid", "Quote", dates=OLD),
        case("collateral is not valid yet", "Quote", dates=(NOW + 1, NOW + DAY)),
        case("platform's certificate is revoked", "Quote", revoked=[1]),
        case("collateral is signed by another", "Quote", signer=Ecdsa(256)),
        case("collateral is of other platforms", "Quote", fmspc="00" * 6),
    ]


def mint():
    maker = Maker()
    good, published = maker.quote(), maker.collateral()

    def case(name, expect, quote=None, policy=POLICY, **changes):
        collateral = maker.collateral(**changes) if changes else published
        return dict(name=name, expect=expect, evidence=(quote or good).hex(), policy=policy,
                    collateral=collateral)

    none = dict(case("no collateral", "Missing"), collateral="")
    odd = dict(case("collateral is no JSON", "Quote"), collateral="{")
    cases = [*of_quotes(maker, case), *of_collateral(maker, case), none, odd]
    return dict(now=NOW, report_data=REPORT_DATA.hex(), root=maker.root.hex(), cases=cases)
