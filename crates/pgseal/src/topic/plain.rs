//! Pages as plain text of 80 columns: headings, paragraphs, lists and tables, which is all that the
//! beginnings of the pages of topics have.

const WIDTH: usize = 80;
/// A first column that is wider is above the other.
const WIDEST_FIRST: usize = 24;

/// Returns a page's Markdown as text.
pub fn text(markdown: &str) -> String {
    let blocks = markdown.split("\n\n").map(|block| block.trim_matches('\n'));
    let blocks = blocks.filter(|block| !block.is_empty()).map(block);
    let mut text = blocks.collect::<Vec<_>>().join("\n\n");
    text.push('\n');
    text
}

fn block(block: &str) -> String {
    if block.starts_with('|') {
        return table(block);
    }
    if block.starts_with("- ") {
        let items = format!("\n{block}");
        let items = items.split("\n- ").skip(1);
        let items = items.map(|item| wrapped(&inline(item), "  - ", 4));
        return items.collect::<Vec<_>>().join("\n");
    }
    let title = block.trim_start_matches('#');
    if title.len() < block.len() {
        return inline(title.trim());
    }
    wrapped(&inline(block), "", 0)
}

/// Two columns stand side by side if the first is narrow. Otherwise the first is a line above the
/// others; if these are several, each has its column's name.
fn table(block: &str) -> String {
    let mut rows = block.lines().map(cells);
    let names = rows.next().unwrap_or_default();
    let rows: Vec<_> = rows.skip(1).collect();
    let first = rows.iter().map(|row| row[0].chars().count()).max();
    let first = first.unwrap_or_default();
    let row = |row: &Vec<String>| match row.as_slice() {
        [key, value] if first <= WIDEST_FIRST => {
            wrapped(value, &format!("  {key:<first$}  "), first + 4)
        }
        [key, value] => format!("{}\n{}", wrapped(key, "  ", 4), wrapped(value, "      ", 8)),
        [key, values @ ..] => {
            let values = values.iter().zip(&names[1..]);
            let values = values.map(|(value, name)| wrapped(value, &format!("      {name}: "), 8));
            let values = values.collect::<Vec<_>>().join("\n");
            format!("{}\n{values}", wrapped(key, "  ", 4))
        }
        [] => String::new(),
    };
    rows.iter().map(row).collect::<Vec<_>>().join("\n")
}

fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_matches('|');
    line.split(" | ").map(|cell| inline(cell.trim())).collect()
}

/// Returns a text without marks of code, emphasis and links.
fn inline(markdown: &str) -> String {
    let mut text = markdown.replace(['`'], "").replace("**", "");
    while let Some(end) = text.find("](") {
        let start = text[..end].rfind('[').unwrap_or(end);
        let close = text[end..].find(')').map_or(text.len(), |at| end + at + 1);
        let title = text[start..end].trim_start_matches('[').to_owned();
        text.replace_range(start..close, &title);
    }
    text
}

/// Returns words in lines, the first of which begins with `start`, and the others with spaces.
fn wrapped(text: &str, start: &str, indent: usize) -> String {
    let mut lines = vec![start.to_owned()];
    let mut is_empty = true;
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one");
        let needed = line.chars().count() + word.chars().count();
        if is_empty {
            line.push_str(word);
        } else if needed < WIDTH {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(format!("{:indent$}{word}", ""));
        }
        is_empty = false;
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_lists_and_headings_become_lines() {
        let page =
            "# A `title`\n\nSee [the page](a/b.md#c) **now**\nor never.\n\n- one\n- two\n  more\n";
        let expected = "A title\n\nSee the page now or never.\n\n  - one\n  - two more\n";
        assert_eq!(text(page), expected);
        let long = "word ".repeat(17);
        assert_eq!(
            text(&long),
            format!("{}\nword\n", "word ".repeat(16).trim_end())
        );
    }

    #[test]
    fn a_narrow_column_stands_beside_the_other() {
        let page =
            "| code | meaning |\n| --- | --- |\n| 0 | done |\n| 130 | [interrupted](x.md) |\n";
        assert_eq!(text(page), "  0    done\n  130  interrupted\n");
    }

    #[test]
    fn a_wide_column_and_several_stand_above() {
        let wide = "x".repeat(25);
        let page = format!("| a | b |\n| --- | --- |\n| {wide} | `c` |\n");
        assert_eq!(text(&page), format!("  {wide}\n      c\n"));
        let page = "| way | now | later |\n| --- | --- | --- |\n| file | `-f` | `-g` |\n";
        assert_eq!(text(page), "  file\n      now: -f\n      later: -g\n");
    }
}
