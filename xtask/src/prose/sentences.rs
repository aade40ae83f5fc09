//! Where sentences end.

/// The numbers of words of a text's sentences. A sentence ends at a full stop, a question mark or
/// an exclamation mark before white space; an ellipsis ends none.
pub fn lengths(text: &str) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut words = 0;
    for word in text.split_whitespace() {
        words += usize::from(word.contains(char::is_alphanumeric));
        let word = word.trim_end_matches([')', '"']);
        if word.ends_with(['.', '!', '?']) && !word.ends_with("...") {
            lengths.push(words);
            words = 0;
        }
    }
    lengths.push(words);
    lengths.retain(|words| *words > 0);
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_at_their_marks() {
        assert_eq!(
            lengths("One two. Three (four five.) Six? pgseal is - one"),
            [2, 3, 1, 3]
        );
        assert_eq!(lengths("From 1.5 to x ... y, a.md too."), [7]);
        assert_eq!(lengths(" . "), [0; 0]);
    }
}
