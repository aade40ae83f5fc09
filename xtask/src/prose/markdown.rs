//! The blocks of a page of Markdown, as far as our pages use it.

/// A block is one of these kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Lines between fences, the fences included, or one indented line.
    Code,
    /// One row.
    Table,
    /// One heading.
    Heading,
    /// One line of a quotation.
    Quote,
    /// A paragraph, or an item of a list.
    Text,
}

/// Lines that belong together.
#[derive(Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// The kind of its lines.
    pub kind: Kind,
    /// The number of the first one, from 1.
    pub line: usize,
    /// The lines as the page has them.
    pub lines: Vec<&'a str>,
}

impl Block<'_> {
    /// The lines as one, without the mark of an item or of a heading.
    pub fn text(&self) -> String {
        let joined: Vec<&str> = self.lines.iter().map(|line| line.trim()).collect();
        let joined = joined.join(" ");
        let marked = match self.kind {
            Kind::Text => item(&joined),
            Kind::Heading => Some(joined.trim_start_matches('#').trim_start()),
            Kind::Code | Kind::Table | Kind::Quote => None,
        };
        marked.map_or(joined.clone(), str::to_owned)
    }
}

/// Splits a page into its blocks; blank lines are in none.
pub fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut blocks: Vec<Block<'_>> = Vec::new();
    // The fence of a block of code that is not closed yet; whether a paragraph goes on; whether an
    // item of a list may.
    let (mut fence, mut goes_on, mut in_list) = (None, false, false);
    for (number, line) in text.lines().enumerate() {
        let start = line.trim_start();
        if let Some(mark) = fence {
            if start.starts_with(mark) {
                fence = None;
            }
            push(&mut blocks, Kind::Code, number, line);
            continue;
        }
        fence = ["```", "~~~"]
            .into_iter()
            .find(|mark| start.starts_with(mark));
        let kind = match kind_of(line, goes_on, in_list) {
            _ if fence.is_some() => Kind::Code,
            Some(kind) => kind,
            None => {
                goes_on = false;
                continue;
            }
        };
        let is_item = kind == Kind::Text && item(start).is_some();
        in_list = is_item || (in_list && (goes_on || line.starts_with(' ')));
        if kind == Kind::Text && goes_on && !is_item {
            if let Some(last) = blocks.last_mut() {
                last.lines.push(line);
            }
            continue;
        }
        goes_on = kind == Kind::Text;
        push(&mut blocks, kind, number, line);
    }
    blocks
}

fn push<'a>(blocks: &mut Vec<Block<'a>>, kind: Kind, number: usize, line: &'a str) {
    blocks.push(Block {
        kind,
        line: number + 1,
        lines: vec![line],
    });
}

/// What a line outside of fences is; `None` if it is blank.
fn kind_of(line: &str, goes_on: bool, in_list: bool) -> Option<Kind> {
    let start = line.trim_start();
    let indent = line.len() - start.len();
    let heading = line.trim_start_matches('#');
    if start.is_empty() {
        None
    } else if start.starts_with('|') {
        Some(Kind::Table)
    } else if heading.len() < line.len() && heading.starts_with(' ') {
        Some(Kind::Heading)
    } else if start.starts_with("> ") {
        Some(Kind::Quote)
    } else if !goes_on && ((indent >= 4 && !in_list) || indent >= 8) {
        Some(Kind::Code)
    } else {
        Some(Kind::Text)
    }
}

/// The text of an item of a list, if this line begins one.
fn item(line: &str) -> Option<&str> {
    let bullet = ["- ", "* ", "+ "]
        .iter()
        .find_map(|mark| line.strip_prefix(mark));
    let numbered = || {
        let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
        rest.strip_prefix(". ").filter(|_| rest.len() < line.len())
    };
    bullet.or_else(numbered)
}

/// A text without marks: a code span is the word `CODE`, a link its text.
pub fn plain(text: &str) -> String {
    let without_code = replace_code(text, "CODE");
    let mut plain = String::new();
    let mut rest = without_code.as_str();
    while let Some((before, behind)) = rest.split_once("](") {
        plain.push_str(before);
        rest = behind.split_once(')').map_or("", |(_, behind)| behind);
    }
    plain.push_str(rest);
    plain.replace(['[', ']', '*'], "")
}

/// A text whose code spans are replaced.
pub fn replace_code(text: &str, code: &str) -> String {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('`') {
        replaced.push_str(&rest[..start]);
        let opened = rest[start..].trim_start_matches('`');
        let mark = &rest[start..rest.len() - opened.len()];
        let Some(end) = opened.find(mark) else {
            rest = opened;
            continue;
        };
        replaced.push_str(code);
        rest = &opened[end + mark.len()..];
    }
    replaced.push_str(rest);
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_blocks() {
        let text =
            "# A\n\none\ntwo\n- item\n  more\n\n  of it\n1. first\n\n    code\n| a |\n> said\n";
        let found: Vec<_> = blocks(text)
            .iter()
            .map(|block| (block.kind, block.line, block.text()))
            .collect();
        let expected = [
            (Kind::Heading, 1, "A"),
            (Kind::Text, 3, "one two"),
            (Kind::Text, 5, "item more"),
            (Kind::Text, 8, "of it"),
            (Kind::Text, 9, "first"),
            (Kind::Text, 11, "code"),
            (Kind::Table, 12, "| a |"),
            (Kind::Quote, 13, "> said"),
        ];
        assert_eq!(
            found,
            expected.map(|(kind, line, text)| (kind, line, text.to_owned()))
        );
    }

    #[test]
    fn code_is_between_fences_or_indented() {
        let kinds = |text: &str| {
            blocks(text)
                .iter()
                .map(|block| block.kind)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            kinds("one\n\n    code\n\ntwo\n"),
            [Kind::Text, Kind::Code, Kind::Text]
        );
        let fenced = "```sh\n# no heading\n\n- no item\n```\ntext\n";
        assert_eq!(
            kinds(fenced),
            [
                Kind::Code,
                Kind::Code,
                Kind::Code,
                Kind::Code,
                Kind::Code,
                Kind::Text
            ]
        );
        assert_eq!(kinds("a paragraph\n    goes on\n"), [Kind::Text]);
    }

    #[test]
    fn marks_are_left_out() {
        assert_eq!(
            plain("**See** [the `x`](a.md#b), ``y`z``."),
            "See the CODE, CODE."
        );
        assert_eq!(plain("a ` alone"), "a  alone");
    }
}
