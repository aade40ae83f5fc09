//! Files of settings: TOML whose values are texts, or true and false. The parser has no `serde`,
//! because what it would derive is more code than this.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

/// The settings of a file, from which a caller takes those that it knows.
pub struct Settings(BTreeMap<String, Value>);

enum Value {
    Text(String),
    Truth(bool),
    Other,
}

impl Settings {
    /// Parses a file. The error is the parser's sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let table = DeTable::parse(text).map_err(|error| error.message().to_owned())?;
        let settings = table.into_inner().into_iter().map(|(name, value)| {
            let value = match value.into_inner() {
                DeValue::String(text) => Value::Text(text.into_owned()),
                DeValue::Boolean(truth) => Value::Truth(truth),
                _ => Value::Other,
            };
            (name.into_inner().into_owned(), value)
        });
        Ok(Self(settings.collect()))
    }

    /// Takes a setting, if it is there. A value that is no text is an error.
    pub fn take(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.0.remove(name) {
            None => Ok(None),
            Some(Value::Text(text)) => Ok(Some(text)),
            Some(_) => Err(format!("{name} must be a text in quotes")),
        }
    }

    /// Takes a setting that is true or false; false if it is not there.
    pub fn take_truth(&mut self, name: &str) -> Result<bool, String> {
        match self.0.remove(name) {
            None => Ok(false),
            Some(Value::Truth(truth)) => Ok(truth),
            Some(_) => Err(format!("{name} must be true or false, without quotes")),
        }
    }

    /// Refuses settings that nothing has taken: a name that is misspelt would have no effect.
    pub fn finish(self) -> Result<(), String> {
        match self.0.into_keys().next() {
            Some(name) => Err(format!("there is no setting {name}")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_texts_of_all_forms() {
        let text = "# one\na = \"b\\\"\\u00e9\"\nc = 'd\\e' # two\nf = '''\ng\nh'''\n";
        let mut settings = Settings::parse(text).expect("it is TOML");
        assert_eq!(settings.take("a"), Ok(Some("b\"é".to_owned())));
        assert_eq!(settings.take("c"), Ok(Some("d\\e".to_owned())));
        assert_eq!(settings.take("f"), Ok(Some("g\nh".to_owned())));
        assert_eq!(settings.take("a"), Ok(None));
        assert_eq!(settings.finish(), Ok(()));
    }

    #[test]
    fn truth_has_no_quotes() {
        let mut settings = Settings::parse("a = true\nb = false\n").expect("it is TOML");
        assert_eq!(settings.take_truth("a"), Ok(true));
        assert_eq!(settings.take_truth("b"), Ok(false));
        assert_eq!(settings.take_truth("a"), Ok(false));
        assert_eq!(settings.finish(), Ok(()));
    }

    #[test]
    fn other_values_and_other_names_are_refused() {
        let mut settings = Settings::parse("a = 1\nb = \"c\"\nd = \"true\"\n").expect("it is TOML");
        let sentence = "d must be true or false, without quotes".to_owned();
        assert_eq!(settings.take_truth("d"), Err(sentence));
        let sentence = "a must be a text in quotes".to_owned();
        assert_eq!(settings.take("a"), Err(sentence));
        assert_eq!(settings.finish(), Err("there is no setting b".to_owned()));
        for text in ["a = b", "a = \"b", "a = \"b\"\na = \"c\"", "= 'a'"] {
            assert!(Settings::parse(text).is_err(), "{text}");
        }
    }
}
