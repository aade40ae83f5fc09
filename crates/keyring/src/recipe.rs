//! The placeholders of wrap, unwrap and key commands.
//!
//! `%p` is the file that holds, or takes, the wrapped key; `%D` the data directory; `%%` a percent
//! sign. Anything else stays as it is: recipes call `date +%s` and the like. Nothing is quoted,
//! for published recipes bring their own quotes.

/// `template` with its placeholders filled in.
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

/// The files in which openssl finds the passphrases of `command` (`-pass file:…`), as far as no
/// shell makes up their names.
pub fn passphrase_files(command: &str) -> impl Iterator<Item = &str> {
    let ends = |letter: char| letter.is_whitespace() || "'\"`;|&()<>".contains(letter);
    let named = command
        .split(ends)
        .filter_map(|word| word.strip_prefix("file:"));
    named.filter(|path| !path.is_empty())
}

/// Whether a passphrase or key stands in `command` itself, as far as openssl's and gpg's options
/// and a plain `echo` tell: whoever reads the command has it.
pub fn tells_secret(command: &str) -> bool {
    let ends = |letter: char| letter.is_whitespace() || "'\"`;|&()<>".contains(letter);
    let words: Vec<&str> = command
        .split(ends)
        .filter(|word| !word.is_empty())
        .collect();
    let is_openssl = words
        .iter()
        .any(|word| word.rsplit('/').next() == Some("openssl"));
    words.iter().enumerate().any(|(at, word)| {
        let prints = at == 0 && ["echo", "printf"].contains(word);
        prints
            || word.starts_with("pass:")
            || word.starts_with("--passphrase=")
            || *word == "--passphrase"
            || (is_openssl && ["-k", "-K"].contains(word))
    })
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
