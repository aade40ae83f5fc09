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

#[cfg(test)]
mod tests {
    use super::expand;

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
