//! The data directory that a server's `postgresql.conf` names, where the file is elsewhere, as
//! Debian's do. Files that it includes are read as the server reads them.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The server refuses files that are included deeper than this.
const MAX_DEPTH: usize = 10;

/// `data_directory`; the setting that is read last counts.
#[derive(Default)]
pub struct DataDirectory(Option<String>);

/// Files that could not be read, and why.
type Unread = Vec<(PathBuf, io::Error)>;

impl DataDirectory {
    /// Reads a file and those that it includes. Returns what could not be read: the setting may be
    /// in there.
    pub fn read(&mut self, file: &Path) -> Unread {
        let mut unread = Unread::new();
        self.file(file, true, 0, &mut unread);
        unread
    }

    /// Returns the directory, if one is named by its whole path.
    pub fn path(&self) -> Option<&Path> {
        let named = self.0.as_deref().map(Path::new);
        named.filter(|path| path.is_absolute())
    }

    fn file(&mut self, file: &Path, must_exist: bool, depth: usize, unread: &mut Unread) {
        if depth > MAX_DEPTH {
            let error = io::Error::other("files include each other too deeply");
            return unread.push((file.to_owned(), error));
        }
        match fs::read(file) {
            Ok(text) => self.text(file, &String::from_utf8_lossy(&text), depth, unread),
            Err(error) if !must_exist && error.kind() == ErrorKind::NotFound => {}
            Err(error) => unread.push((file.to_owned(), error)),
        }
    }

    fn text(&mut self, file: &Path, text: &str, depth: usize, unread: &mut Unread) {
        // A relative path is meant from where the file that includes it is.
        let here = file.parent().unwrap_or(Path::new("/"));
        for (name, value) in text.lines().filter_map(setting) {
            match &*name {
                "data_directory" => self.0 = Some(value),
                "include" => self.file(&here.join(value), true, depth + 1, unread),
                "include_if_exists" => self.file(&here.join(value), false, depth + 1, unread),
                "include_dir" => self.directory(&here.join(value), depth + 1, unread),
                _ => {}
            }
        }
    }

    /// Reads the files whose names end in `.conf`, in the order of their names.
    fn directory(&mut self, directory: &Path, depth: usize, unread: &mut Unread) {
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => return unread.push((directory.to_owned(), error)),
        };
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|file| is_configuration(file));
        files.sort();
        for file in files {
            self.file(&file, true, depth, unread);
        }
    }
}

fn is_configuration(file: &Path) -> bool {
    let name = file.file_name().unwrap_or_default().as_encoded_bytes();
    name.ends_with(b".conf") && !name.starts_with(b".") && !file.is_dir()
}

/// Returns the name, in small letters, and the value of a line that sets something.
fn setting(line: &str) -> Option<(String, String)> {
    let line = line.trim_start();
    let is_in_name = |letter: char| letter.is_alphanumeric() || "_.$".contains(letter);
    let end = line.find(|letter| !is_in_name(letter))?;
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let rest = rest.strip_prefix('=').unwrap_or(rest).trim_start();
    let value = match rest.strip_prefix('\'') {
        Some(quoted) => unquoted(quoted)?,
        None => rest.split([' ', '\t', '#']).next()?.to_owned(),
    };
    (!name.is_empty()).then(|| (name.to_ascii_lowercase(), value))
}

/// Returns what is before the closing quote: a quote in it is doubled, or behind a backslash.
fn unquoted(text: &str) -> Option<String> {
    let mut value = String::new();
    let mut letters = text.chars().peekable();
    loop {
        match letters.next()? {
            '\'' if letters.next_if_eq(&'\'').is_none() => return Some(value),
            '\\' => value.push(letters.next()?),
            letter => value.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files in a new directory, and what is read of `postgresql.conf` there: the setting, and the
    /// names of what could not be read.
    fn read(files: &[(&str, &str)]) -> (Option<String>, Vec<String>) {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, text) in files {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().expect("it has one")).expect("it can be made");
            fs::write(path, text).expect("it is new");
        }
        let mut named = DataDirectory::default();
        let unread = named.read(&directory.path().join("postgresql.conf"));
        let name = |(path, _): (PathBuf, _)| {
            let inside = path.strip_prefix(directory.path()).unwrap_or(&path);
            inside.display().to_string()
        };
        let path = named.path().map(|path| path.display().to_string());
        (path, unread.into_iter().map(name).collect())
    }

    #[test]
    fn the_last_setting_counts() {
        for (conf, expected) in [
            ("data_directory = '/a'\t\t# use data\n", Some("/a")),
            ("#data_directory = '/a'\n", None),
            ("data_directory '/a b'\ndata_directory='/c'\n", Some("/c")),
            ("Data_Directory = '/it''s'\n", Some("/it's")),
            ("data_directory = /a # as it is\n", Some("/a")),
            ("data_directory = 'ConfigDir'\n", None),
            ("data_directory = '/a\n", None),
            ("data_directory_of_mine = '/a'\n", None),
        ] {
            let (path, unread) = read(&[("postgresql.conf", conf)]);
            assert_eq!(path.as_deref(), expected, "{conf}");
            assert!(unread.is_empty());
        }
    }

    #[test]
    fn files_that_are_included_count_where_they_are_included() {
        let conf = "data_directory = '/a'\ninclude_if_exists = 'absent'\ninclude_dir 'conf.d'\n";
        let more = [
            ("conf.d/1.conf", "include = '../more/file'\n"),
            ("conf.d/0.conf", "data_directory = '/0'\n"),
            ("conf.d/.2.conf", "data_directory = '/2'\n"),
            ("conf.d/3.conf.old", "data_directory = '/3'\n"),
            ("more/file", "data_directory = '/more'\n"),
        ];
        let files = [&[("postgresql.conf", conf)][..], &more].concat();
        assert_eq!(read(&files), (Some("/more".to_owned()), vec![]));
        let conf = format!("{conf}data_directory = '/last'\n");
        let files = [&[("postgresql.conf", &*conf)][..], &more].concat();
        assert_eq!(read(&files).0.as_deref(), Some("/last"));
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        let conf = "data_directory = '/a'\ninclude 'absent'\ninclude_dir 'none'\n";
        let (path, unread) = read(&[("postgresql.conf", conf)]);
        assert_eq!(path.as_deref(), Some("/a"));
        assert_eq!(unread, ["absent", "none"]);
        let (_, unread) = read(&[("postgresql.conf", "include 'postgresql.conf'\n")]);
        assert_eq!(unread, ["postgresql.conf"]);
    }
}
