//! Where functions begin and end in a source file, as far as formatters keep their shape.
//!
//! Rust as rustfmt leaves it: a function ends at the brace under its first word. C as PostgreSQL
//! writes it: bodies between braces in the first column. Python: by indentation.

/// A function's first line (counted from 1), and how many lines it has.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its first line.
    pub line: usize,
    /// Its length.
    pub len: usize,
}

/// The functions of a file, by the ending of its name.
pub fn functions(name: &str, text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    let end_of = match name.rsplit('.').next() {
        Some("rs") => end_in_rust,
        Some("c" | "h") => end_in_c,
        Some("py") => end_in_python,
        _ => return Vec::new(),
    };
    (0..lines.len())
        .filter_map(|first| {
            let end = end_of(&lines, first)?;
            Some(Function {
                line: first + 1,
                len: end - first,
            })
        })
        .collect()
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The line after the function that begins at `first`, if one does.
fn end_in_rust(lines: &[&str], first: usize) -> Option<usize> {
    let code = lines[first].trim_start();
    let mut words = code.split(' ').take_while(|word| !word.contains('('));
    let is_function = words.any(|word| word == "fn")
        || code.starts_with("fn ")
        || (code.contains(" fn ") && code.starts_with("pub"));
    if !is_function || code.starts_with("//") {
        return None;
    }
    let (indent, rest) = (indent(lines[first]), &lines[first..]);
    let closes = |line: &&str| line.trim_start() == "}" && self::indent(line) == indent;
    // A declaration, or a body on one line.
    if code.ends_with(';') || code.ends_with('}') {
        return Some(first + 1);
    }
    let len = rest.iter().position(closes)?;
    Some(first + len + 1)
}

fn end_in_c(lines: &[&str], first: usize) -> Option<usize> {
    if lines[first] != "{" {
        return None;
    }
    let len = lines[first..].iter().position(|line| *line == "}")?;
    Some(first + len + 1)
}

fn end_in_python(lines: &[&str], first: usize) -> Option<usize> {
    let line = lines[first];
    if !line.trim_start().starts_with("def ") {
        return None;
    }
    let inside = |line: &&str| line.trim().is_empty() || indent(line) > indent(lines[first]);
    let signature = lines[first..]
        .iter()
        .position(|line| line.trim_end().ends_with(':'))?;
    let body = first + signature + 1;
    let len = lines[body..].iter().take_while(|line| inside(line)).count();
    let blank = lines[body..body + len]
        .iter()
        .rev()
        .take_while(|line| line.trim().is_empty());
    Some(body + len - blank.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(name: &str, text: &str) -> Vec<(usize, usize)> {
        let found = functions(name, text);
        found.iter().map(|found| (found.line, found.len)).collect()
    }

    #[test]
    fn rust_functions_end_under_their_first_word() {
        let text = "\
pub fn one() {
    if true {
    }
}

impl T {
    fn short(&self) -> u8 { 1 }
    pub(crate) const extern \"C\" fn two(
        x: u8,
    ) {
        x
    }
}
// fn none() {
let function = (\"fn \");
";
        assert_eq!(lengths("a.rs", text), [(1, 4), (7, 1), (8, 5)]);
    }

    #[test]
    fn c_bodies_stand_in_the_first_column() {
        assert_eq!(
            lengths("a.c", "int\nmain(void)\n{\n\tif (x)\n\t{\n\t}\n}\n"),
            [(3, 5)]
        );
    }

    #[test]
    fn python_functions_end_with_their_indentation() {
        let text = "def one(\n    x,\n):\n    return 1\n\n\nclass A:\n    def two(self):\n\n        pass\n";
        assert_eq!(lengths("a.py", text), [(1, 4), (8, 3)]);
    }
}
