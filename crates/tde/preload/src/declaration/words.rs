//! Receivers' words in libpq's `options`, as the server splits those (pg_split_opts): at blanks,
//! and a backslash makes the next character part of the word. Pure.

/// The setting that carries the word.
const SETTING: &[u8] = b"pgseal.receiver=";
/// The prefix of our word. Its two blanks tell it from words that users write.
const PREFIX: &[u8] = b"  -c pgseal.receiver=";

/// Returns the words that `options` declare.
pub fn declared(options: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    words(options).filter_map(value)
}

/// Returns `options` with our word after those of users.
pub fn declare(options: &[u8], word: &[u8]) -> Vec<u8> {
    let each = word.iter().flat_map(|&byte| {
        let escape = (byte == b'\\' || is_blank(byte)).then_some(b'\\');
        escape.into_iter().chain([byte])
    });
    options.iter().chain(PREFIX).copied().chain(each).collect()
}

/// Returns `options` without our word, which is the last.
pub fn without_ours(options: &[u8]) -> &[u8] {
    let ours = options.windows(PREFIX.len()).rposition(|at| at == PREFIX);
    &options[..ours.unwrap_or(options.len())]
}

/// Returns `options` without any such word; not longer than they were.
pub fn without_any(options: &[u8]) -> Vec<u8> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for word in words(options) {
        if value(word).is_none() {
            kept.push(word);
        } else if kept.last() == Some(&&b"-c"[..]) {
            kept.pop();
        }
    }
    kept.join(&b' ')
}

fn words(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        rest = &rest[rest.iter().position(|&byte| !is_blank(byte))?..];
        let mut escaped = false;
        let ends = |&byte: &u8| {
            let ends = !escaped && is_blank(byte);
            escaped = !escaped && byte == b'\\';
            ends
        };
        let end = rest.iter().position(ends).unwrap_or(rest.len());
        let (word, more) = rest.split_at(end);
        rest = more;
        Some(word)
    })
}

/// Returns what one word declares: `pgseal.receiver=` after `-c`, `-c` and nothing, or `--`. Names
/// of settings have no case.
fn value(word: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = word.iter();
    let next = || match bytes.next() {
        Some(b'\\') => bytes.next().copied(),
        byte => byte.copied(),
    };
    let word: Vec<u8> = std::iter::from_fn(next).collect();
    let at = word
        .windows(SETTING.len())
        .position(|part| part.eq_ignore_ascii_case(SETTING))?;
    Some(word[at + SETTING.len()..].to_vec())
}

/// Returns what `isspace` does in the C locale.
fn is_blank(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(options: &str) -> Vec<String> {
        let text = |word| String::from_utf8(word).expect("ASCII");
        declared(options.as_bytes()).map(text).collect()
    }

    #[test]
    fn what_options_declare() {
        for (options, words) in [
            ("", &[][..]),
            ("-c geqo=off", &[]),
            ("-c pgseal.receiver=raw", &["raw"]),
            ("\t-cpgseal.receiver=a -c geqo=off", &["a"]),
            ("--pgseal.receiver=a\x0b-c PGSeal.Receiver=b", &["a", "b"]),
            (r"-c pgseal\.receiver=a\ b\\c d", &[r"a b\c"]),
            (r"-c pgseal.receiver=a\", &["a"]),
            ("-c pgseal.receiver=", &[""]),
        ] {
            assert_eq!(all(options), words, "{options}");
        }
    }

    #[test]
    fn our_word_comes_and_goes() {
        let theirs = b"-c geqo=off -c pgseal.receiver=theirs";
        let both = declare(theirs, b"v1.1.a b\\\x0b.c");
        let text = String::from_utf8(both.clone()).expect("ASCII");
        assert_eq!(all(&text), ["theirs", "v1.1.a b\\\x0b.c"]);
        assert_eq!(without_ours(&both), theirs);
        assert_eq!(without_ours(theirs), theirs);
        assert_eq!(declare(b"", b"raw"), b"  -c pgseal.receiver=raw");
    }

    #[test]
    fn nobody_s_word_is_left() {
        for (options, left) in [
            ("", ""),
            ("-c geqo=off", "-c geqo=off"),
            ("-c pgseal.receiver=a", ""),
            ("  -c pgseal.receiver=a", ""),
            (
                r"-c a=b\ c -c pgseal.receiver=d\ e  -c f=g",
                r"-c a=b\ c -c f=g",
            ),
            ("-c -cpgseal.receiver=a --PGSEAL.receiver=b -B 9", "-B 9"),
        ] {
            assert_eq!(
                without_any(options.as_bytes()),
                left.as_bytes(),
                "{options}"
            );
        }
    }
}
