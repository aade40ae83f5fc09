//! `vectors/cell.json`, `datakey.json` and `grant.json`: cells, keys and grants, most of them bad,
//! each with the result that is expected.

use pgseal_cell::grant::{verify, Grant, GrantError, Revocations, Serial};
use pgseal_cell::{
    CellCipher, CellError, CellRef, DataKey, LegacyCipher, LegacyKey, MasterKey, Mode, Nonces,
    PublicKey, TokenKind, Type, UnwrapError, Unwrapped, WrappedKey,
};
use pgseal_crypto::sign::SigningKey;
use pgseal_crypto::{sha256, Secret};
use serde::Deserialize;

fn bytes(digits: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn array<const N: usize>(digits: &str) -> [u8; N] {
    bytes(digits).try_into().expect("as many bytes")
}

macro_rules! vectors {
    ($name:literal) => {
        serde_json::from_str(include_str!(concat!("../../../../vectors/", $name)))
            .expect("the vectors are JSON")
    };
}

#[derive(Deserialize)]
struct Cells {
    sealed: Vec<Sealed>,
    cases: Vec<CellCase>,
    keyless: Vec<Keyless>,
    hashes: Vec<Hash>,
    tokens: Vec<Token>,
}

#[derive(Deserialize)]
struct Sealed {
    name: String,
    key: String,
    r#type: u8,
    mode: u8,
    plain: String,
    cell: String,
}

#[derive(Deserialize)]
struct CellCase {
    name: String,
    key: String,
    cell: String,
    result: String,
    #[serde(default)]
    plain: String,
}

#[derive(Deserialize)]
struct Keyless {
    name: String,
    cell: String,
    found: Vec<String>,
}

#[derive(Deserialize)]
struct Hash {
    name: String,
    master: String,
    r#type: u8,
    canonical: String,
    seed: u64,
    hash: String,
}

#[derive(Deserialize)]
struct Token {
    name: String,
    master: String,
    kind: u8,
    part: String,
    token: String,
}

fn cells() -> Cells {
    let cells: Cells = vectors!("cell.json");
    assert_eq!(cells.cases.len(), 109);
    cells
}

fn data_key(digits: &str) -> DataKey {
    DataKey::from_bytes(&mut array(digits))
}

fn mode(number: u8) -> Mode {
    match number {
        1 => Mode::Randomised,
        2 => Mode::Deterministic,
        3 => Mode::Derived,
        other => panic!("mode {other}"),
    }
}

fn open(cell: &[u8], key: &str) -> Result<Vec<u8>, CellError> {
    let cell = CellRef::parse(cell)?;
    if key.len() == 32 {
        let key = LegacyKey::from_bytes(&mut array(key));
        let plain = LegacyCipher::new(&key).open(&cell)?;
        assert_eq!(plain.len(), cell.plain_len());
        return Ok(plain.to_vec());
    }
    let cipher = CellCipher::new(&data_key(key));
    let mut plain = vec![9; 3];
    cipher.open(&cell, &mut plain).map(|()| plain)
}

#[test]
fn every_cell_is_judged_as_it_must_be() {
    for case in cells().cases {
        let opened = open(&bytes(&case.cell), &case.key);
        let result = match &opened {
            Ok(_) => "holds",
            Err(CellError::WrongLength) => "wrong length",
            Err(CellError::Malformed) => "malformed",
            Err(CellError::UnknownVersion) => "unknown version",
            Err(CellError::UnknownAlgorithm) => "unknown algorithm",
            Err(CellError::UnknownType) => "unknown type",
            Err(CellError::NotAuthentic) => "not authentic",
        };
        assert_eq!(result, case.result, "{}", case.name);
        if let Ok(plain) = opened {
            assert_eq!(plain, bytes(&case.plain), "{}", case.name);
        }
    }
}

#[test]
fn cells_are_sealed_as_they_were() {
    for case in cells().sealed {
        let expected = bytes(&case.cell);
        let cell = CellRef::parse(&expected).expect("a cell");
        let ty = Type::from_byte(case.r#type).expect("a type");
        assert_eq!((cell.ty(), cell.mode()), (ty, mode(case.mode)));
        let cipher = CellCipher::new(&data_key(&case.key));
        assert_eq!(cell.key_id(), Some(cipher.id()), "{}", case.name);
        let mut sealed = b"before".to_vec();
        let plain = bytes(&case.plain);
        cipher
            .seal(ty, mode(case.mode), &plain, &mut Nonces::new(), &mut sealed)
            .expect("random bytes");
        let sealed = &sealed[6..];
        // Random nonces differ; all else of the header does not.
        if mode(case.mode) == Mode::Deterministic {
            assert_eq!(sealed, expected, "{}", case.name);
        } else {
            assert_eq!(sealed[1..7], expected[1..7], "{}", case.name);
            assert_ne!(sealed[7..19], expected[7..19], "{}", case.name);
            assert_eq!(open(sealed, &case.key), Ok(plain), "{}", case.name);
        }
    }
}

/// Opens deterministic cells of version 0 without a key, because their nonce is an unkeyed hash.
fn dictionary(cell: &[u8]) -> Vec<Vec<u8>> {
    let nonce = *CellRef::parse(cell).expect("a cell").nonce();
    let numbers = (-500_i32..=500).flat_map(|i| [i.to_le_bytes(), i.to_be_bytes()]);
    let mut candidates: Vec<Vec<u8>> = numbers.map(|four| four.to_vec()).collect();
    candidates.push(Vec::new());
    candidates.retain(|plain| {
        let xor = plain.iter().fold(0, |sum, byte| sum ^ byte);
        sha256(&[plain, &[xor]])[..12] == nonce
    });
    candidates.dedup();
    candidates
}

#[test]
fn the_key_free_dictionary_finds_the_published_cells_and_none_of_ours() {
    let cases = cells().keyless;
    assert_eq!(cases.len(), 5);
    for case in cases {
        let expected: Vec<_> = case.found.iter().map(|plain| bytes(plain)).collect();
        assert_eq!(dictionary(&bytes(&case.cell)), expected, "{}", case.name);
    }
}

#[test]
fn hashes_are_keyed_and_typed() {
    for case in cells().hashes {
        let key = MasterKey::from_bytes(&mut array(&case.master)).hash_key();
        let ty = Type::from_byte(case.r#type).expect("a type");
        let hash = key.hash(ty, &bytes(&case.canonical), case.seed);
        assert_eq!(format!("{hash:016x}"), case.hash, "{}", case.name);
    }
}

#[test]
fn tokens_are_keyed_and_of_a_kind() {
    for case in cells().tokens {
        let key = MasterKey::from_bytes(&mut array(&case.master)).token_key();
        let kinds = [TokenKind::Word, TokenKind::Trigram];
        let kind = kinds.into_iter().find(|kind| *kind as u8 == case.kind);
        let token = key.token(kind.expect("a kind"), &case.part);
        assert_eq!(format!("{token:016x}"), case.token, "{}", case.name);
    }
}

#[derive(Deserialize)]
struct DataKeys {
    cases: Vec<DataKeyCase>,
    owners: Vec<OwnerCase>,
}

#[derive(Deserialize)]
struct OwnerCase {
    name: String,
    master: String,
    signing: String,
    owner: String,
    id: String,
}

#[derive(Deserialize)]
struct DataKeyCase {
    name: String,
    master: String,
    owner: String,
    keyname: String,
    wrapped: String,
    result: String,
    key: Option<String>,
}

fn unwrap(case: &DataKeyCase) -> Result<Unwrapped, UnwrapError> {
    let master = MasterKey::from_bytes(&mut array(&case.master));
    let owner = PublicKey(array(&case.owner));
    WrappedKey::parse(&bytes(&case.wrapped))?.unwrap(&master, &owner, &case.keyname)
}

#[test]
fn every_data_key_is_judged_as_it_must_be() {
    let DataKeys { cases, .. } = vectors!("datakey.json");
    assert_eq!(cases.len(), 34);
    for case in cases {
        let unwrapped = unwrap(&case);
        let result = match &unwrapped {
            Ok(_) => "holds",
            Err(UnwrapError::Malformed) => "malformed",
            Err(UnwrapError::Unknown) => "unknown",
            Err(UnwrapError::OtherOwner) => "other owner",
            Err(UnwrapError::NotAuthentic) => "not authentic",
        };
        assert_eq!(result, case.result, "{}", case.name);
        if let (Ok(unwrapped), Some(key)) = (unwrapped, &case.key) {
            let id = match key.len() {
                32 => LegacyKey::from_bytes(&mut array(key)).id(),
                _ => data_key(key).id(),
            };
            assert_eq!(unwrapped.id(), id, "{}", case.name);
        }
    }
}

#[test]
fn an_owner_id_names_both_keys() {
    let DataKeys { owners, .. } = vectors!("datakey.json");
    assert_eq!(owners.len(), 2);
    for case in owners {
        let signing = SigningKey::from_seed(&Secret::from_bytes(&mut array(&case.signing)));
        assert_eq!(
            signing.public(),
            PublicKey(array(&case.owner)),
            "{}",
            case.name
        );
        let master = MasterKey::from_bytes(&mut array(&case.master));
        let id = master.owner_id(&signing.public());
        assert_eq!(id.0, array(&case.id), "{}", case.name);
        assert_ne!(id, master.owner_id(&PublicKey([0; 32])), "{}", case.name);
    }
}

#[test]
fn a_wrapped_key_opens_again() {
    let master = MasterKey::generate().expect("random bytes");
    let owner = PublicKey([5; 32]);
    let key = Unwrapped::Sealed(DataKey::generate().expect("random bytes"));
    let wrapped = key.wrap(&master, &owner, "name", 9, true, &mut Nonces::new());
    let wrapped = wrapped.expect("random bytes");
    let parsed = WrappedKey::parse(&wrapped).expect("well formed");
    assert_eq!((parsed.group(), parsed.deterministic()), (9, true));
    assert_eq!(parsed.owner(), master.owner_id(&owner));
    let again = parsed
        .unwrap(&master, &owner, "name")
        .expect("the same key");
    assert_eq!((again.id(), parsed.id()), (key.id(), key.id()));
}

#[derive(Deserialize)]
struct Grants {
    cases: Vec<GrantCase>,
    revocations: Vec<RevocationCase>,
}

#[derive(Deserialize)]
struct GrantCase {
    name: String,
    owner: String,
    now: u64,
    grant: String,
    #[serde(default)]
    revoked: Vec<String>,
    result: String,
}

#[derive(Deserialize)]
struct RevocationCase {
    name: String,
    owner: String,
    list: String,
    #[serde(default)]
    serials: Vec<String>,
    result: String,
}

/// The owner of most vectors: the first test vector of RFC 8032.
fn owner_key() -> SigningKey {
    let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    SigningKey::from_seed(&Secret::from_bytes(&mut array(seed)))
}

fn text(result: Result<(), GrantError>) -> &'static str {
    match result {
        Ok(()) => "holds",
        Err(GrantError::Malformed) => "malformed",
        Err(GrantError::Unknown) => "unknown",
        Err(GrantError::Foreign) => "foreign",
        Err(GrantError::TooWide) => "too wide",
        Err(GrantError::Early) => "early",
        Err(GrantError::Expired) => "expired",
        Err(GrantError::Revoked) => "revoked",
    }
}

#[test]
fn every_grant_is_judged_as_it_must_be() {
    let Grants { cases, .. } = vectors!("grant.json");
    assert_eq!(cases.len(), 58);
    for case in cases {
        let (owner, grant) = (PublicKey(array(&case.owner)), bytes(&case.grant));
        let revoked = case.revoked.iter().map(|serial| Serial(array(serial)));
        let revoked = Revocations::sign(1, revoked.collect(), &owner_key());
        let revoked = revoked.verify(&owner_key().public()).expect("our own");
        let verdict = Grant::parse(&grant).and_then(|parsed| {
            assert_eq!(parsed.encode(), grant, "{}", case.name);
            verify(&parsed, &owner, case.now, Some(&revoked)).map(drop)
        });
        assert_eq!(text(verdict), case.result, "{}", case.name);
    }
}

#[test]
fn every_list_of_revocations_is_judged_as_it_must_be() {
    let Grants { revocations, .. } = vectors!("grant.json");
    assert_eq!(revocations.len(), 24);
    for case in revocations {
        let (owner, list) = (PublicKey(array(&case.owner)), bytes(&case.list));
        let verdict = Revocations::parse(&list).and_then(|parsed| {
            assert_eq!(parsed.encode(), list, "{}", case.name);
            parsed.verify(&owner)
        });
        if let Ok(list) = &verdict {
            for serial in &case.serials {
                assert!(list.revokes(owner, Serial(array(serial))));
            }
            assert!(!list.revokes(owner, Serial([0xee; 16])));
        }
        assert_eq!(text(verdict.map(drop)), case.result, "{}", case.name);
    }
}
