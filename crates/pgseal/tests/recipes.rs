//! The published recipes, word for word: OpenSSL's for real, the cloud tools played by scripts that
//! are as particular about their input as the real ones.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use common::{command, payload, pgseal, plain, script, Cluster, Transcript, KEY_ID};

/// `aws kms`: raw bytes from a `fileb://` path, base64 on standard output.
const AWS: &str = r#"#!/bin/sh
mode=$2; shift 2
while [ $# -gt 0 ]; do
  case $1 in
    --plaintext|--ciphertext-blob) blob=${2#fileb://}; [ "$blob" != "$2" ] || exit 252; shift 2 ;;
    --output) [ "$2" = text ] || exit 252; shift 2 ;;
    --key-id|--query) shift 2 ;;
    *) exit 252 ;;
  esac
done
case $mode in
  encrypt) { printf 'KMS\001'; tr a-z n-za-m < "$blob"; } | base64 ;;
  decrypt) [ "$(head -c 3 "$blob")" = KMS ] || { echo InvalidCiphertextException >&2; exit 254; }
           tail -c +5 "$blob" | tr a-z n-za-m | base64 ;;
esac
"#;

/// `az keyvault key`: the value is text, so anything but UTF-8 dies; JSON on standard output.
const AZ: &str = r#"#!/bin/sh
[ "$1 $2" = "keyvault key" ] || exit 2
mode=$3; shift 3
while [ $# -gt 0 ]; do
  case $1 in
    --value) value=$2; shift 2 ;;
    --data-type) [ "$2" = plaintext ] || exit 2; shift 2 ;;
    --name|--vault-name|--algorithm|--output) shift 2 ;;
    --only-show-errors) shift ;;
    *) exit 2 ;;
  esac
done
case $value in @-) file=/dev/stdin ;; @*) file=${value#@} ;; *) exit 2 ;; esac
text=$(iconv -f utf-8 -t utf-8 "$file") || { echo "'utf-8' codec can't decode" >&2; exit 1; }
case $mode in
  encrypt) result=$(printf %s "$text" | base64 -w0) ;;
  decrypt) result=$(printf %s "$text" | base64 -d) || exit 1 ;;
esac
printf '{ "algorithm": "A256GCM", "result": "%s" }\n' "$result"
"#;

/// `gcloud kms`: files, `-` for standard input and output.
const GCLOUD: &str = r#"#!/bin/sh
[ "$1" = kms ] || exit 2
for arg; do
  case $arg in
    --plaintext-file=*) plain=${arg#*=} ;;
    --ciphertext-file=*) cipher=${arg#*=} ;;
  esac
done
[ "$plain" = - ] && [ "$cipher" != - ] || exit 2
case $2 in
  encrypt) tr a-z n-za-m > "$cipher" ;;
  decrypt) tr a-z n-za-m < "$cipher" ;;
esac
"#;

/// `vault write` on the transit engine: base64 in, `vault:v1:…` out, no line end.
const VAULT: &str = r#"#!/bin/sh
[ "$1" = write ] || exit 1
value=$(tr -d '\n')
case "$2 $3 $4" in
  "-field=ciphertext transit/encrypt/pg-tde-master-1 plaintext=-")
    printf %s "$value" | base64 -d > /dev/null || exit 2
    printf 'vault:v1:%s' "$(printf %s "$value" | base64 -w0)" ;;
  "-field=plaintext transit/decrypt/pg-tde-master-1 ciphertext=-")
    printf %s "${value#vault:v1:}" | base64 -d ;;
  *) exit 1 ;;
esac
"#;

/// A client that is in the data directory, where commands run.
const KMIP: &str = r#"import sys
mode, options = sys.argv[1], dict(arg.split("=", 1) for arg in sys.argv[2:])
assert options["--variant"] == "thales" and options["--key-uid"] == "7"
if mode == "encrypt":
    open(options["--out-file"], "wb").write(sys.stdin.buffer.read()[::-1])
else:
    sys.stdout.buffer.write(open(options["--in-file"], "rb").read()[::-1])
"#;

/// `PATH` with scripts before the rest.
fn path_with(cluster: &Cluster, scripts: &[(&str, &str)]) -> String {
    let bin = cluster.beside("bin");
    fs::create_dir_all(&bin).expect("a directory");
    for (name, text) in scripts {
        script(&bin.join(name), text);
    }
    format!(
        "{}:{}",
        bin.display(),
        std::env::var("PATH").expect("a PATH")
    )
}

/// Wraps by one recipe and unwraps by the other; the plain slot is gone.
#[track_caller]
fn recipe(wrap: &str, unwrap: &str, scripts: &[(&str, &str)]) -> Cluster {
    let cluster = Cluster::new([plain()]);
    fs::write(cluster.data().join("edb_tde_kmip_client.py"), KMIP).expect("a file");
    let path = path_with(&cluster, scripts);
    let mut wrapping = cluster.key("wrap", &["--replace", "1"]);
    wrapping
        .env("PATH", &path)
        .env("PGDATAKEYWRAPCMD", wrap)
        .env("PGDATAKEYUNWRAPCMD", unwrap);
    Transcript::of(&mut wrapping).prints("slot 2 opens the key now, slot 1 is gone\n");
    let check = Transcript::of(cluster.key("check", &[]).env("PATH", &path));
    check.prints(&format!("key {KEY_ID} opens through slot 2\n"));
    cluster
}

#[test]
fn openssl() {
    recipe(
        r#"openssl enc -e -aes-128-cbc -pbkdf2 -pass pass:ok -out "%p""#,
        r#"openssl enc -d -aes-128-cbc -pbkdf2 -pass pass:ok -in "%p""#,
        &[],
    );
}

#[test]
fn openssl_of_the_older_manual() {
    recipe(
        r#"openssl enc -e -aes128-wrap -pbkdf2 -pass pass:ok -out "%p""#,
        r#"openssl enc -d -aes128-wrap -pbkdf2 -pass pass:ok -in "%p""#,
        &[],
    );
}

#[test]
fn systemd_ask_password() {
    recipe(
        r#"openssl enc -e -aes-128-cbc -pbkdf2 -pass pass:asked -out "%p""#,
        "bash -c 'openssl enc -d -aes-128-cbc -pbkdf2 -in %p -pass file:<(sudo systemd-ask-password --no-tty)'",
        &[("sudo", "#!/bin/sh\nexec \"$@\"\n"), ("systemd-ask-password", "#!/bin/sh\necho asked\n")],
    );
}

#[test]
fn aws() {
    recipe(
        r#"aws kms encrypt --key-id alias/pg-tde-master-1 --plaintext fileb:///dev/stdin --output text --query CiphertextBlob | base64 -d > "%p""#,
        r#"aws kms decrypt --key-id alias/pg-tde-master-1 --ciphertext-blob fileb://"%p" --output text --query Plaintext | base64 -d"#,
        &[("aws", AWS)],
    );
}

#[test]
fn azure() {
    recipe(
        r#"az keyvault key encrypt --name pg-tde-master-1 --vault-name pg-tde --algorithm A256GCM --value @- --data-type plaintext --only-show-errors --output json | jq -r .result > "%p""#,
        r#"az keyvault key decrypt --name pg-tde-master-1 --vault-name pg-tde --algorithm A256GCM --value @"%p" --data-type plaintext --only-show-errors --output json | jq -r .result"#,
        &[("az", AZ)],
    );
}

#[test]
fn gcloud() {
    recipe(
        "gcloud kms encrypt --plaintext-file=- --ciphertext-file=%p --location=global --keyring=pg-tde --key=pg-tde-master-1",
        "gcloud kms decrypt --plaintext-file=- --ciphertext-file=%p --location=global --keyring=pg-tde --key=pg-tde-master-1",
        &[("gcloud", GCLOUD)],
    );
}

#[test]
fn vault() {
    recipe(
        r#"base64 | vault write -field=ciphertext transit/encrypt/pg-tde-master-1 plaintext=- > "%p""#,
        r#"vault write -field=plaintext transit/decrypt/pg-tde-master-1 ciphertext=- < "%p" | base64 -d"#,
        &[("vault", VAULT)],
    );
}

#[test]
fn thales_by_kmip() {
    recipe(
        "python3 edb_tde_kmip_client.py encrypt --pykmip-config-file=pykmip.conf --key-uid=7 --out-file=%p --variant=thales",
        "python3 edb_tde_kmip_client.py decrypt --pykmip-config-file=pykmip.conf --key-uid=7 --in-file=%p --variant=thales",
        &[],
    );
}

/// Slow to lend the terminal, which a command may not ask at before.
const SLOW: &str = "strace -qq -o /dev/null -e trace=ioctl -e inject=ioctl:delay_enter=200000";

/// The recipe that prompts, at a terminal.
#[test]
fn openssl_asks_at_the_terminal() {
    let cluster = recipe(
        r#"openssl enc -e -aes-128-cbc -pbkdf2 -pass pass:typed -out "%p""#,
        r#"openssl enc -d -aes-128-cbc -pbkdf2 -pass pass:typed -in "%p""#,
        &[],
    );
    asks_at_the_terminal(&cluster, "");
    asks_at_the_terminal(&cluster, SLOW);
}

fn asks_at_the_terminal(cluster: &Cluster, runner: &str) {
    let log = cluster.beside("typescript");
    let line = format!(
        "{runner} '{}' key check -D '{}' --key-unwrap-command 'openssl enc -d -aes-128-cbc -pbkdf2 -in \"%p\"'; echo code $?",
        env!("CARGO_BIN_EXE_pgseal"),
        cluster.data().display()
    );
    let mut typing = Command::new("sh");
    let dialogue = r#"seen() { for _ in $(seq 300); do grep -q "$1" "$2" && return; sleep 0.1; done; }
        { seen password: "$2"; echo typed; seen ^code "$2"; } |
        script --quiet --flush --command "$1" "$2""#;
    fs::write(&log, "").expect("a file");
    typing.args(["-c", dialogue, "sh", &line]).arg(&log);
    let shown = Transcript::of(&mut typing).stdout;
    assert!(shown.contains("decryption password:"), "{shown}");
    assert!(
        shown.contains(&format!("key {KEY_ID} opens through slot 2\r\ncode 0")),
        "{shown}"
    );
}

/// EDB's rotation recipe on a key file that has become one raw wrapping.
#[test]
fn a_rotation_by_hand() {
    let cluster = Cluster::new([plain()]);
    let dir = cluster.data().join("pg_encryption");
    let header: String = common::header()
        .bound()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    fs::write(dir.join("pgseal.toml"), format!("header = \"{header}\"\n")).expect("a file");
    let by_hand = |first: &str, pass: &str| {
        let line = format!("{first} | openssl enc -e -aes-128-cbc -pbkdf2 -pass pass:{pass} -out key.bin.new && mv key.bin.new key.bin");
        let done = Command::new("sh")
            .arg("-c")
            .arg(line)
            .current_dir(&dir)
            .status();
        assert!(done.expect("sh").success());
    };
    let unwrap =
        |pass: &str| format!("openssl enc -d -aes-128-cbc -pbkdf2 -pass pass:{pass} -in \"%p\"");
    let check = |pass: &str| {
        Transcript::of(
            cluster
                .key("check", &[])
                .env("PGDATAKEYUNWRAPCMD", unwrap(pass)),
        )
    };
    let opens = format!("key {KEY_ID} opens through the raw key.bin\n");
    by_hand(
        &format!(
            "'{}' key unwrap -D '{}'",
            env!("CARGO_BIN_EXE_pgseal"),
            cluster.data().display()
        ),
        "one",
    );
    check("one").prints(&opens);
    by_hand(
        "openssl enc -d -aes-128-cbc -pbkdf2 -pass pass:one -in key.bin",
        "two",
    );
    check("two").prints(&opens);
    let sentence = format!(
        "{}: no unwrap command is known: give one with --key-unwrap-command or PGDATAKEYUNWRAPCMD",
        cluster.key_bin_path().display()
    );
    cluster.check().refuses(6, &sentence);
    // And back into a key file of ours.
    let mut rotate = cluster.key(
        "rotate",
        &["--new-plain", "--key-unwrap-command", &unwrap("two")],
    );
    Transcript::of(&mut rotate).prints("slot 1 opens the key now, the raw key.bin is gone\n");
    cluster
        .check()
        .prints(&format!("key {KEY_ID} opens through slot 1\n"));
}

/// Messages name the source of a command that fails, or that takes precedence over a new slot's.
#[test]
fn a_command_of_the_environment() {
    let cluster = Cluster::new([command("cat \"%p\"", &payload())]);
    let with = |verb: &str, options: &[&str], unwrap: &str| {
        Transcript::of(cluster.key(verb, options).env("PGDATAKEYUNWRAPCMD", unwrap))
    };
    let sentence = format!(
        "{}: the unwrap command failed with exit status 3: run it by hand to \
        see why; that command comes from PGDATAKEYUNWRAPCMD, which takes precedence over \
        key.bin",
        cluster.key_bin_path().display()
    );
    with("check", &[], "exit 3").refuses(6, &sentence);
    let new = [
        "--new-wrap-command",
        "cat > \"%p\"",
        "--new-unwrap-command",
        "cat < \"%p\"",
    ];
    let done = "slot 2 opens the key now, slot 1 is gone\n";
    let warning = "warning: another unwrap command, from PGDATAKEYUNWRAPCMD, takes precedence \
        over the new slot's: remove it or change it before the next start\n";
    with("rotate", &new, "cat \"%p\"").prints(&format!("{done}{warning}"));
    let done = "slot 1 opens the key now, slot 2 is gone\n";
    with("rotate", &new, new[3]).prints(done);
    Transcript::of(&mut cluster.key("rotate", &new))
        .prints("slot 2 opens the key now, slot 1 is gone\n");
}

/// `openssl enc` ends with 0 on many damaged wrappings: what it then prints must be refused.
#[test]
fn damaged_wrappings_that_openssl_lets_pass() {
    let cluster = recipe(
        r#"openssl enc -e -aes-128-cbc -pbkdf2 -iter 1 -pass pass:ok -out "%p""#,
        r#"openssl enc -d -aes-128-cbc -pbkdf2 -iter 1 -pass pass:ok -in "%p""#,
        &[],
    );
    let wrapped = wrapping(&cluster);
    let mut let_pass = 0;
    for at in 0..wrapped.len() {
        let mut flipped = wrapped.clone();
        flipped[at] ^= 1;
        let damaged = Cluster::new([command(
            r#"openssl enc -d -aes-128-cbc -pbkdf2 -iter 1 -pass pass:ok -in "%p""#,
            &flipped,
        )]);
        let transcript = damaged.check();
        assert!(
            matches!(transcript.code, Some(6 | 7)),
            "byte {at}: {transcript:?}"
        );
        assert_eq!(transcript.stdout, "", "byte {at}");
        let_pass += usize::from(transcript.code == Some(7));
    }
    assert!(
        let_pass > 80,
        "openssl let only {let_pass} flips pass: this test lost its subject"
    );
}

/// Returns the content of the command slot 2 of `cluster`: the end of its key file, before the
/// MAC.
fn wrapping(cluster: &Cluster) -> Vec<u8> {
    let bytes = cluster.key_bin();
    let salted = bytes
        .windows(8)
        .rposition(|window| window == b"Salted__")
        .expect("OpenSSL's magic");
    bytes[salted..bytes.len() - 32].to_vec()
}

/// A wrong passphrase that `openssl enc` accepts: one in some 250 ends with 0.
#[test]
fn a_wrong_passphrase_that_openssl_lets_pass() {
    let salt = "-S 0102030405060708 -iter 1";
    let wrap = format!(r#"openssl enc -e -aes-128-cbc -pbkdf2 {salt} -pass pass:ok -out "%p""#);
    let unwrap = |pass: &str| {
        format!(r#"openssl enc -d -aes-128-cbc -pbkdf2 {salt} -pass pass:{pass} -in "%p""#)
    };
    let cluster = recipe(&wrap, &unwrap("ok"), &[]);
    let check = |pass: &str| {
        Transcript::of(&mut cluster.key("check", &["--key-unwrap-command", &unwrap(pass)]))
    };
    let sentence = format!("{}: what was unwrapped is not a pgseal key: check the passphrase or command, or restore key.bin from a copy", cluster.key_bin_path().display());
    check(ACCEPTED).refuses(7, &sentence);
    let refused = check("wrong");
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(6), ""));
}

/// Found by trying.
const ACCEPTED: &str = "wrong405";

#[test]
fn a_wrap_command_that_fails() {
    let cluster = Cluster::new([plain()]);
    let before = cluster.key_bin();
    let wrap = |line: &str, unwrap: &str| {
        Transcript::of(&mut cluster.key(
            "wrap",
            &["--new-wrap-command", line, "--new-unwrap-command", unwrap],
        ))
    };
    wrap("cat > /dev/null", "cat %p").refuses(
        6,
        "the wrap command wrote nothing to %p: check that it names \"%p\" as its output",
    );
    wrap("cat > %p; exit 2", "cat %p").refuses(
        6,
        "the wrap command failed with exit status 2: run it by hand to see why",
    );
    wrap("cat > %p; head -c 70000 /dev/zero >> %p", "cat %p").refuses(
        6,
        "the wrap command wrote more than 60000 bytes to %p: check what it writes",
    );
    wrap("cat > %p", "rev %p").refuses(7, "the new slot does not open, so key.bin was left as it was: what was unwrapped is not a pgseal key: check the passphrase or command, or restore key.bin from a copy");
    wrap("cat > %p", "exit 9").refuses(6, "the new slot does not open, so key.bin was left as it was: the unwrap command failed with exit status 9: run it by hand to see why");
    assert_eq!(cluster.key_bin(), before);
}

/// Other users cannot read the file for the wrapped key.
#[test]
fn the_wrapping_is_written_in_private() {
    let cluster = Cluster::new([plain()]);
    let wrap = r#"stat -c '%%a' "%p" "$(dirname "%p")" > seen; cat > "%p"; echo noise"#;
    let mut command = cluster.key(
        "wrap",
        &["--new-wrap-command", wrap, "--new-unwrap-command", "cat %p"],
    );
    let transcript = Transcript::of(&mut command);
    assert_eq!(transcript.code, Some(0), "{transcript:?}");
    assert_eq!(
        (transcript.stdout.as_str(), transcript.stderr.as_str()),
        ("slot 2 opens the key as well\n", "noise\n")
    );
    let seen: PathBuf = cluster.data().join("seen");
    assert_eq!(
        fs::read_to_string(seen).expect("the command wrote it"),
        "600\n700\n"
    );
    Transcript::of(pgseal(&["key", "check", "--all", "-D"]).arg(cluster.data())).prints(&format!(
        "key {KEY_ID} opens through slot 1\nslot 1 (plain): opens\nslot 2 (command): opens\n"
    ));
}
