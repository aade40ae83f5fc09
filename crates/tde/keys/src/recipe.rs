//! The placeholders of wrap, unwrap and key commands.
//!
//! `%p` is the file that holds, or takes, the wrapped key; `%D` the data directory; `%%` a percent
//! sign. Anything else stays as it is: recipes call `date +%s` and the like. Nothing is quoted,
//! for published recipes bring their own quotes.

/// Returns `template` with its placeholders filled in.
pub fn expand(template: &str, file: &str, data: &str) -> String {
    let mut out = String::with_capacity(template.len() + file.len());
    let mut rest = template;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let (replacement, len) = match rest[at + 1..].chars().next() {
            Some('p') => (file, 2),
            Some('D') => (data, 2),
            Some('%') => ("%", 2),
            _ => ("%", 1),
        };
        out.push_str(replacement);
        rest = &rest[at + len..];
    }
    out.push_str(rest);
    out
}

/// Returns the files in which openssl finds the passphrases of `command` (`-pass file:…`), as far
/// as no shell makes up their names.
pub fn passphrase_files(command: &str) -> impl Iterator<Item = &str> {
    let ends = |letter: char| letter.is_whitespace() || "'\"`;|&()<>".contains(letter);
    let named = command
        .split(ends)
        .filter_map(|word| word.strip_prefix("file:"));
    named.filter(|path| !path.is_empty())
}

/// Whether a passphrase or key is in `command` itself, as far as openssl's and gpg's options
/// and a plain `echo` tell: anyone who reads the command has it. Text that a shell puts in, from a
/// variable or another command, does not count.
pub fn tells_secret(command: &str) -> bool {
    let words = words(command);
    let is_openssl =
        |word: &&str| word.trim_start_matches('`').rsplit('/').next() == Some("openssl");
    let is_openssl = words.iter().any(is_openssl);
    let mut given = (0..words.len()).filter_map(|at| given(&words[at..], is_openssl));
    prints(command) || given.any(|word| !is_put_in(word))
}

/// Does the command begin with an `echo` of its own text?
fn prints(command: &str) -> bool {
    let first = command.split(['|', ';', '&']).next().unwrap_or_default();
    match words(first)[..] {
        ["echo" | "printf", ref printed @ ..] => !printed.iter().any(|word| is_put_in(word)),
        _ => false,
    }
}

/// Returns the words of a command, as far as no quote or parenthesis divides them.
fn words(command: &str) -> Vec<&str> {
    let ends = |letter: char| letter.is_whitespace() || "'\";|&()<>".contains(letter);
    let words = command.split(ends);
    words.filter(|word| !word.is_empty()).collect()
}

/// Does a shell put something in the place of this word?
fn is_put_in(word: &str) -> bool {
    word.starts_with(['$', '`'])
}

/// Returns the secret that the first of `words` is an option for.
fn given<'a>(words: &[&'a str], is_openssl: bool) -> Option<&'a str> {
    let (option, rest) = words.split_first()?;
    let joined = ["pass:", "--passphrase="].map(|start| option.strip_prefix(start));
    let is_apart = *option == "--passphrase" || (is_openssl && ["-k", "-K"].contains(option));
    match joined.into_iter().flatten().next() {
        // A quote ended the word.
        Some("") => rest.first().copied(),
        None if is_apart => rest.first().copied(),
        joined => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::{expand, passphrase_files, tells_secret};

    #[test]
    fn secrets_on_a_command_line() {
        for (command, expected) in [
            ("openssl enc -d -pass pass:ok -in \"%p\"", true),
            ("/usr/bin/openssl enc -d -passin 'pass:ok'", true),
            ("openssl enc -d -k ok -in %p", true),
            ("gpg --batch --passphrase ok -d %p", true),
            ("gpg --passphrase=ok -d %p", true),
            ("echo 00112233445566778899aabbccddeeff", true),
            ("gpg --batch --passphrase-file /etc/p -d %p", false),
            ("openssl enc -d -pass file:/etc/p -in %p", false),
            ("openssl enc -d -pass env:WORD -in %p", false),
            (
                "curl -k https://keys.example/unwrap --data-binary @%p",
                false,
            ),
            ("pass show postgresql", false),
            ("cat %p; touch echo", false),
            ("printf %s 00112233445566778899aabbccddeeff", true),
            ("printf '00112233445566778899aabbccddeeff'", true),
            (
                "echo -n '00112233445566778899aabbccddeeff' | xxd -r -p",
                true,
            ),
            ("gpg --passphrase='ok' -d %p", true),
            ("`/usr/bin/openssl enc -d -k ok -in %p`", true),
            ("printf %s \"$MYKEY\"", false),
            ("printf '%s\\n' \"${MYKEY}\"", false),
            ("printf 'key: %s' `cat /etc/p`", false),
            ("echo -n \"$(cat /etc/p)\"", false),
            ("gpg --batch --passphrase \"$(cat /etc/p)\" -d %p", false),
            ("gpg --batch --passphrase=$WORD -d %p", false),
            ("gpg --batch --passphrase=\"$WORD\" -d %p", false),
            ("gpg --batch --passphrase `cat /etc/p` -d %p", false),
            ("openssl enc -d -K $K -iv 0 -in %p", false),
            ("openssl enc -d -k \"$(cat /etc/p)\" -in %p", false),
            ("openssl enc -d -pass pass:$WORD -in %p", false),
            ("openssl enc -d -pass \"pass:$(cat /etc/p)\" -in %p", false),
            ("openssl enc -d -pass pass:\"$WORD\" -in %p", false),
        ] {
            assert_eq!(tells_secret(command), expected, "{command}");
        }
    }

    #[test]
    fn files_of_passphrases() {
        for (command, expected) in [
            (
                r#"openssl enc -d -pass file:/etc/p -in "%p""#,
                vec!["/etc/p"],
            ),
            (
                "openssl rsa -passin 'file:p'|openssl enc -pass file:q",
                vec!["p", "q"],
            ),
            (r#"aws kms decrypt --ciphertext-blob fileb://"%p""#, vec![]),
            ("openssl enc -pass file: -profile:x", vec![]),
        ] {
            let found: Vec<_> = passphrase_files(command).collect();
            assert_eq!(found, expected, "{command}");
        }
    }

    #[test]
    fn placeholders() {
        for (template, expected) in [
            (r#"openssl enc -in "%p""#, r#"openssl enc -in "/f""#),
            ("tool -D %D --file=%p", "tool -D /d --file=/f"),
            ("%%p %%%p", "%p %/f"),
            ("date +%s; echo 100%", "date +%s; echo 100%"),
            ("%ä", "%ä"),
            ("", ""),
        ] {
            assert_eq!(expand(template, "/f", "/d"), expected);
        }
    }
}
