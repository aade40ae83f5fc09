//! The settings of a connection string that the driver does not know, taken out of it: those of
//! TLS, and which of several hosts is wanted.

use percent_encoding::percent_decode_str;

/// libpq's names.
const NAMES: [&str; 5] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "target_session_attrs",
];

type Settings = Vec<(String, String)>;

/// Returns the rest of a connection string, a URI or keywords, and these settings.
pub fn take_settings(text: &str) -> (String, Settings) {
    match text.contains("://") {
        true => of_uri(text),
        false => of_keywords(text),
    }
}

fn of_uri(text: &str) -> (String, Settings) {
    let Some((place, parameters)) = text.split_once('?') else {
        return (text.to_owned(), Settings::new());
    };
    let (ours, rest): (Vec<&str>, Vec<&str>) = parameters
        .split('&')
        .partition(|parameter| NAMES.contains(&parameter.split('=').next().unwrap_or_default()));
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let settings = ours.iter().filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        Some((name.to_owned(), decoded(value)))
    });
    let rest = match rest.is_empty() {
        true => place.to_owned(),
        false => format!("{place}?{}", rest.join("&")),
    };
    (rest, settings.collect())
}

/// Splits a string of keywords. Text in another form stays for the driver, which reports it.
fn of_keywords(text: &str) -> (String, Settings) {
    let (mut rest, mut settings) = (String::new(), Settings::new());
    let mut left = text.trim_start();
    while let Some((name, after)) = left.split_once('=') {
        let after = after.trim_start();
        let (value, length) = value_of(after);
        if NAMES.contains(&name.trim()) {
            settings.push((name.trim().to_owned(), value));
        } else {
            rest.push_str(&left[..left.len() - after.len() + length]);
            rest.push(' ');
        }
        left = after[length..].trim_start();
    }
    (rest + left, settings)
}

/// Returns the value that a text begins with, and how many bytes of the text it takes.
fn value_of(text: &str) -> (String, usize) {
    let quoted = text.starts_with('\'');
    let mut value = String::new();
    let mut characters = text.char_indices().skip(usize::from(quoted));
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            '\'' if quoted => return (value, at + 1),
            space if !quoted && space.is_whitespace() => return (value, at),
            character => value.push(character),
        }
    }
    (value, text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str) -> (String, Vec<(String, String)>) {
        take_settings(text)
    }

    fn owned(settings: &[(&str, &str)]) -> Settings {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        settings.iter().map(pair).collect()
    }

    #[test]
    fn of_a_uri() {
        let (rest, settings) = taken(
            "postgresql://ada@db/shop?sslmode=verify-full&connect_timeout=3&sslrootcert=%2Fa%20b",
        );
        assert_eq!(rest, "postgresql://ada@db/shop?connect_timeout=3");
        let expected = [("sslmode", "verify-full"), ("sslrootcert", "/a b")];
        assert_eq!(settings, owned(&expected));
        assert_eq!(
            taken("postgresql://db?sslmode=disable").0,
            "postgresql://db"
        );
        assert_eq!(taken("postgresql://db/shop").0, "postgresql://db/shop");
    }

    #[test]
    fn of_keywords_quoted_and_not() {
        let text = r"host=db sslrootcert = '/a\'b c' password='x sslmode=disable' sslmode=require";
        let (rest, settings) = taken(text);
        assert_eq!(rest, "host=db password='x sslmode=disable' ");
        let expected = [("sslrootcert", "/a'b c"), ("sslmode", "require")];
        assert_eq!(settings, owned(&expected));
        assert_eq!(taken("host=db nonsense").0, "host=db nonsense");
    }
}
