//! The comments of sources: doc comments and others of Rust and C, comments and docstrings of
//! Python. Strings of code are in none of them.

/// A comment: the number of its first line, from 1, and its text with all marks.
pub type Comment<'a> = (usize, &'a str);

/// Returns the comments of a file, by the ending of its name.
pub fn of<'a>(name: &str, text: &'a str) -> Vec<Comment<'a>> {
    match name.rsplit('.').next() {
        Some("rs" | "c" | "h") => found(text, in_rust_and_c),
        Some("py") => found(text, in_python),
        _ => Vec::new(),
    }
}

/// The next part of a source, and how many bytes it has.
enum Part {
    Comment(usize),
    Code(usize),
}

fn found(text: &str, part: impl Fn(&str, Option<char>) -> Part) -> Vec<Comment<'_>> {
    let (mut comments, mut at, mut line) = (Vec::new(), 0, 1);
    while at < text.len() {
        let before = text[..at].chars().next_back();
        let (len, is_comment) = match part(&text[at..], before) {
            Part::Comment(len) => (len, true),
            Part::Code(len) => (len, false),
        };
        let part = &text[at..at + len];
        if is_comment {
            comments.push((line, part));
        }
        line += part.matches('\n').count();
        at += len;
    }
    comments
}

/// C has no raw strings, and Rust's lifetimes are no characters.
fn in_rust_and_c(rest: &str, before: Option<char>) -> Part {
    let starts_word = !before.is_some_and(|c| c.is_alphanumeric() || c == '_');
    if rest.starts_with("//") {
        return Part::Comment(through(rest, 2, "\n", 0));
    }
    if rest.starts_with("/*") {
        return Part::Comment(through(rest, 2, "*/", 2));
    }
    if let Some(hashes) = raw_string(rest).filter(|_| starts_word) {
        let start = rest.find('"').unwrap_or(0) + 1;
        let end = format!("\"{}", "#".repeat(hashes));
        return Part::Code(through(rest, start, &end, end.len()));
    }
    match rest.chars().next() {
        Some('"') => Part::Code(quoted(rest, '"')),
        Some('\'') => Part::Code(character(rest)),
        first => Part::Code(first.map_or(1, char::len_utf8)),
    }
}

/// How many `#` a raw string has that begins here.
fn raw_string(rest: &str) -> Option<usize> {
    let behind = rest.trim_start_matches(['b', 'c']).strip_prefix('r')?;
    let behind_hashes = behind.trim_start_matches('#');
    let is_string = behind_hashes.starts_with('"') && rest.len() - behind.len() <= 2;
    is_string.then(|| behind.len() - behind_hashes.len())
}

/// A docstring is a string of three quotes that begins its line.
fn in_python(rest: &str, before: Option<char>) -> Part {
    const QUOTES: &str = "\"\"\"";
    if rest.starts_with('#') {
        return Part::Comment(through(rest, 1, "\n", 0));
    }
    // The indentation goes along with a docstring, so that its line is known to begin with it.
    let indent = rest.len() - rest.trim_start_matches(' ').len();
    if before.is_none_or(|c| c == '\n') && rest[indent..].starts_with(QUOTES) {
        return Part::Comment(through(rest, indent + 3, QUOTES, 3));
    }
    if rest.starts_with(QUOTES) {
        return Part::Code(through(rest, 3, QUOTES, 3));
    }
    match rest.chars().next() {
        Some(quote @ ('"' | '\'')) => Part::Code(quoted(rest, quote)),
        first => Part::Code(first.map_or(1, char::len_utf8)),
    }
}

/// The length up to `end`, of which `more` bytes belong to it; `start` bytes are passed over.
fn through(rest: &str, start: usize, end: &str, more: usize) -> usize {
    let found = rest[start..].find(end);
    found.map_or(rest.len(), |at| start + at + more)
}

/// The length of a string that begins here.
fn quoted(rest: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        if c == quote && !is_escaped {
            return at + 1;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    rest.len()
}

/// The length of a character, or of the quote of a lifetime.
fn character(rest: &str) -> usize {
    let inside: Vec<char> = rest.chars().skip(1).take(2).collect();
    match inside[..] {
        ['\\', _] => quoted(rest, '\''),
        [c, '\''] => c.len_utf8() + 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_of_rust_are_found_and_strings_are_not() {
        let text = "//! One.\nlet a = \"// no \\\" // no\"; // Two.\nlet b = r#\"// \" no\"#;\n\
            fn c<'a>(d: &'a str) { let e = '\"'; } /* Three,\nfour. */\nlet f = '\\''; /// Five.\n";
        let expected = [
            (1, "//! One."),
            (2, "// Two."),
            (4, "/* Three,\nfour. */"),
            (6, "/// Five."),
        ];
        assert_eq!(of("a.rs", text), expected);
    }

    #[test]
    fn comments_of_c_are_found() {
        let text = "/*\n * One.\n */\nchar *a = \"/* no */\"; // Two.\n";
        assert_eq!(of("a.h", text), [(1, "/*\n * One.\n */"), (4, "// Two.")]);
    }

    #[test]
    fn docstrings_and_comments_of_python_are_found() {
        let text =
            "\"\"\"One.\"\"\"\nx = \"# no\"  # Two.\ny = '''\n'''\nz = f\"\"\"\n# no\n\"\"\"\n\
            def a():\n    \"\"\"Three,\n    four.\"\"\"\n";
        let expected = [
            (1, "\"\"\"One.\"\"\""),
            (2, "# Two."),
            (9, "    \"\"\"Three,\n    four.\"\"\""),
        ];
        assert_eq!(of("a.py", text), expected);
    }

    #[test]
    fn other_files_have_none() {
        assert_eq!(of("a.sh", "# One.\n"), []);
    }
}
