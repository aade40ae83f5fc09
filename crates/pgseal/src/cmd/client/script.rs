//! Statements of a script, one after the other: each up to its `;`, with the values of its
//! parameters as psql's `\bind` has them, and rows after a COPY from standard input.
//!
//! Pure. Values may stand between quotes, where a quote is doubled; `\N` is NULL.

use std::str::FromStr;

use pgseal_client::Statement;
use zeroize::Zeroizing;

use crate::cli::client::NamedType;

/// A statement, and what its parameters are given.
#[derive(Default)]
pub struct Step {
    /// The statement, without what ends it
    pub statement: String,
    /// $1, $2 …; none is NULL
    pub values: Vec<Option<Zeroizing<String>>>,
    /// Which of them go in clear
    pub plain: Vec<usize>,
    /// Which are of a type that the server does not tell
    pub types: Vec<NamedType>,
}

/// Why a script is not read.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("the script has something else behind a backslash than \\bind, \\plain, \\type and \\g, or not what these take")]
    Command,
    #[error("the script ends within a statement: end it with a semicolon")]
    Cut,
    #[error("the rows of a COPY end with a line of \\. in the script")]
    Rows,
}

/// The rest of a script.
pub struct Script<'s>(&'s str);

impl<'s> Script<'s> {
    pub fn new(text: &'s str) -> Self {
        Self(text)
    }

    /// The next statement; none is left at the end.
    pub fn step(&mut self) -> Result<Option<Step>, ScriptError> {
        let Some(end) = Statement::end(self.0) else {
            return match Statement::new(self.0).is_empty() {
                true => Ok(None),
                false => Err(ScriptError::Cut),
            };
        };
        let mut step = Step {
            statement: self.0[..end].trim().to_owned(),
            ..Step::default()
        };
        self.0 = &self.0[end..];
        while !self.ends() {
            self.command(&mut step)?;
        }
        Ok(Some(step))
    }

    /// The rows behind a COPY, each with its end of line, up to a line of `\.`.
    pub fn rows(&mut self) -> Result<&'s str, ScriptError> {
        let (_, rows) = self.0.split_once('\n').ok_or(ScriptError::Rows)?;
        let mut end = 0;
        for line in rows.split_inclusive('\n') {
            if line.trim_end_matches('\n') == "\\." {
                self.0 = &rows[end + line.len()..];
                return Ok(&rows[..end]);
            }
            end += line.len();
        }
        Err(ScriptError::Rows)
    }

    /// Steps over what ends a statement, if it is next.
    fn ends(&mut self) -> bool {
        self.0 = self.0.trim_start();
        let end = ["\\g", ";"]
            .into_iter()
            .find_map(|end| self.0.strip_prefix(end));
        self.0 = end.unwrap_or(self.0);
        end.is_some()
    }

    fn command(&mut self, step: &mut Step) -> Result<(), ScriptError> {
        let command = self.word()?.ok_or(ScriptError::Cut)?;
        let words = std::iter::from_fn(|| self.value().transpose());
        let words: Vec<Option<Zeroizing<String>>> = words.collect::<Result<_, _>>()?;
        match command.as_str() {
            "\\bind" => step.values = words,
            "\\plain" => step.plain = parsed(words)?,
            "\\type" => step.types = parsed(words)?,
            _ => return Err(ScriptError::Command),
        }
        Ok(())
    }

    /// The next word that is no command and no end; NULL has none.
    fn value(&mut self) -> Result<Option<Option<Zeroizing<String>>>, ScriptError> {
        self.0 = self.0.trim_start();
        let is_null = self.0.strip_prefix("\\N");
        if let Some(rest) = is_null.filter(|rest| !rest.starts_with(is_bare)) {
            self.0 = rest;
            return Ok(Some(None));
        }
        if self.0.is_empty() || self.0.starts_with([';', '\\']) {
            return Ok(None);
        }
        Ok(self.word()?.map(Some))
    }

    fn word(&mut self) -> Result<Option<Zeroizing<String>>, ScriptError> {
        let Some(quoted) = self.0.strip_prefix('\'') else {
            let start = usize::from(self.0.starts_with('\\'));
            let end = self.0[start..].find(|c| !is_bare(c));
            let (word, rest) = self.0.split_at(end.map_or(self.0.len(), |end| start + end));
            self.0 = rest;
            return Ok(Some(Zeroizing::new(word.to_owned())).filter(|word| !word.is_empty()));
        };
        let mut word = Zeroizing::new(String::with_capacity(quoted.len()));
        let mut rest = quoted;
        loop {
            let (part, left) = rest.split_once('\'').ok_or(ScriptError::Cut)?;
            word.push_str(part);
            match left.strip_prefix('\'') {
                Some(left) => {
                    word.push('\'');
                    rest = left;
                }
                None => {
                    self.0 = left;
                    return Ok(Some(word));
                }
            }
        }
    }
}

fn is_bare(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, ';' | '\'' | '\\')
}

fn parsed<T: FromStr>(words: Vec<Option<Zeroizing<String>>>) -> Result<Vec<T>, ScriptError> {
    let word = |word: Option<Zeroizing<String>>| word.and_then(|word| word.parse().ok());
    let parsed: Option<Vec<T>> = words.into_iter().map(word).collect();
    parsed.ok_or(ScriptError::Command)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statement, its values, and how many are plain and typed.
    fn steps(text: &str) -> Result<Vec<String>, ScriptError> {
        let (mut script, mut steps) = (Script::new(text), Vec::new());
        while let Some(step) = script.step()? {
            let value = |value: &Option<Zeroizing<String>>| match value {
                Some(value) => format!("<{}>", value.as_str()),
                None => "NULL".to_owned(),
            };
            let values: String = step.values.iter().map(value).collect();
            steps.push(format!(
                "{}{values}{:?}{}",
                step.statement,
                step.plain,
                step.types.len()
            ));
        }
        Ok(steps)
    }

    #[test]
    fn statements_and_their_values() {
        let text = "BEGIN;\n SELECT ';' \\bind a 'b ''c;' \\N '' \\plain 1 2 \\type 3=integer;\n\
                    INSERT \\bind \\Nx \\g\nCOMMIT; -- end\n";
        let expected = ["BEGIN[]0", "SELECT ';'<a><b 'c;>NULL<>[1, 2]1", "COMMIT[]0"];
        let text = text.replace("INSERT \\bind \\Nx \\g\n", "");
        assert_eq!(steps(&text).ok().unwrap_or_default(), expected);
        assert_eq!(
            steps("a \\bind 1 \\g b;").ok().unwrap_or_default(),
            ["a<1>[]0", "b[]0"]
        );
        assert_eq!(steps(" -- nothing").ok().unwrap_or_default(), [""; 0]);
    }

    #[test]
    fn what_is_not_read_says_so() {
        for (text, cut) in [
            ("SELECT 1", true),
            ("a \\bind 'x;", true),
            ("a \\bind x", true),
            ("a \\x;", false),
            ("a \\plain one;", false),
            ("a \\bind \\Nx;", false),
            ("a \\type 1=colour;", false),
        ] {
            let refused = steps(text);
            assert_eq!(matches!(refused, Err(ScriptError::Cut)), cut, "{text}");
            assert!(refused.is_err(), "{text}");
        }
    }

    #[test]
    fn rows_end_with_a_line_of_their_own() {
        let mut script = Script::new("COPY t FROM STDIN;\n1\ta;b\n\n\\.\nCOMMIT;\n");
        assert!(script.step().is_ok_and(|step| step.is_some()));
        assert_eq!(script.rows().ok(), Some("1\ta;b\n\n"));
        let next = script.step().ok().flatten().map(|step| step.statement);
        assert_eq!(next.as_deref(), Some("COMMIT"));
        for text in ["COPY t FROM STDIN;", "COPY t FROM STDIN;\n1\n"] {
            let mut script = Script::new(text);
            assert!(script.step().is_ok());
            assert!(matches!(script.rows(), Err(ScriptError::Rows)));
        }
    }
}
