//! Which file of a package uses which, and how many use each other in a circle.
//!
//! A path of code (`crate::a::B`, `super::c`) uses the file in which its name is declared; names
//! that a module passes on (`pub use`) are followed to their own file. Macros are not looked into.

use super::File;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use syn::visit::{self, Visit};

type Name = Vec<String>;

/// Each package, and the number of files in its largest circle (1 if there is none).
pub fn circles(files: &[File]) -> io::Result<Vec<(String, usize)>> {
    let mut packages: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in files {
        packages.entry(&file.package).or_default().push(file);
    }
    packages
        .into_iter()
        .map(|(package, files)| Ok((package.to_owned(), largest(&uses(&files)?))))
        .collect()
}

/// How many `static` items are declared in this file.
pub fn statics(text: &str) -> usize {
    struct Statics(usize);
    impl<'ast> Visit<'ast> for Statics {
        fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {
            self.0 += 1;
        }
        fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
            if !is_for_tests(&module.attrs) {
                visit::visit_item_mod(self, module);
            }
        }
    }
    let mut statics = Statics(0);
    if let Ok(file) = syn::parse_file(text) {
        statics.visit_file(&file);
    }
    statics.0
}

/// Returns for each file the numbers of the files that it uses.
fn uses(files: &[&File]) -> io::Result<Vec<BTreeSet<usize>>> {
    let names: Vec<Name> = files.iter().map(|file| module_of(file)).collect();
    let by_name: HashMap<&[String], usize> = (0..).zip(&names).map(|(i, n)| (&n[..], i)).collect();
    let mut found = Vec::new();
    for (file, name) in files.iter().zip(&names) {
        let parsed = syn::parse_file(&file.text)
            .map_err(|error| io::Error::other(format!("{}: {error}", file.path.display())))?;
        let mut paths = Paths {
            module: name.clone(),
            ..Paths::default()
        };
        paths.visit_file(&parsed);
        found.push(paths);
    }
    let owner = |path: &[String]| {
        let mut path = path.to_vec();
        for _ in 0..8 {
            let (len, file) = (0..=path.len())
                .rev()
                .find_map(|len| Some((len, *by_name.get(&path[..len])?)))?;
            let passed_on = path
                .get(len)
                .and_then(|next| found[file].passed_on.get(next));
            let Some(target) = passed_on else {
                return Some(file);
            };
            path = target.iter().chain(&path[len + 1..]).cloned().collect();
        }
        None
    };
    let edges = |(at, paths): (usize, &Paths)| {
        let used = paths.used.iter().filter_map(|path| owner(path));
        used.filter(|file| *file != at).collect()
    };
    Ok(found.iter().enumerate().map(edges).collect())
}

fn module_of(file: &File) -> Name {
    let path = file.path.with_extension("");
    let mut parts: Name = path
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if matches!(
        parts.last().map(String::as_str),
        Some("mod" | "lib" | "main")
    ) {
        parts.pop();
    }
    parts
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    let mut cfg = attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"));
    cfg.any(|attribute| {
        attribute
            .meta
            .require_list()
            .is_ok_and(|list| list.tokens.to_string().contains("test"))
    })
}

/// The paths of one file, as absolute names within the package.
#[derive(Default)]
struct Paths {
    /// The module that is visited.
    module: Name,
    used: BTreeSet<Name>,
    /// Names of other modules that this file passes on.
    passed_on: HashMap<String, Name>,
}

impl Paths {
    /// A path that begins with `crate`, `super` or `self`, or with a child module's name.
    fn absolute(&self, path: &[String]) -> Option<Name> {
        let mut name = self.module.clone();
        let mut rest = path;
        match path.first().map(String::as_str)? {
            "crate" => name.clear(),
            "self" => {}
            "super" => {
                name.pop();
            }
            _ => return None,
        }
        rest = &rest[1..];
        while rest.first().is_some_and(|part| part == "super") {
            name.pop();
            rest = &rest[1..];
        }
        name.extend_from_slice(rest);
        Some(name)
    }

    fn import(&mut self, tree: &syn::UseTree, before: &mut Name, passes_on: bool) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before, passes_on);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, before, passes_on);
                }
            }
            syn::UseTree::Name(name) => {
                let name = name.ident.to_string();
                self.take(before, &name.clone(), name, passes_on);
            }
            syn::UseTree::Rename(rename) => {
                let (name, new) = (rename.ident.to_string(), rename.rename.to_string());
                self.take(before, &name, new, passes_on);
            }
            syn::UseTree::Glob(_) => {
                if let Some(name) = self.absolute(before) {
                    self.used.insert(name);
                }
            }
        }
    }

    fn take(&mut self, before: &[String], name: &str, known_as: String, passes_on: bool) {
        let mut path = before.to_vec();
        if name != "self" {
            path.push(name.to_owned());
        }
        let child = || [&self.module[..], &path[..]].concat();
        let Some(absolute) = self.absolute(&path).or_else(|| passes_on.then(child)) else {
            return;
        };
        if passes_on {
            self.passed_on.insert(known_as, absolute);
        } else {
            self.used.insert(absolute);
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let passes_on = !matches!(item.vis, syn::Visibility::Inherited);
        self.import(&item.tree, &mut Name::new(), passes_on);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Name = path
            .segments
            .iter()
            .map(|part| part.ident.to_string())
            .collect();
        self.used.extend(self.absolute(&parts));
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if module.content.is_none() || is_for_tests(&module.attrs) {
            return;
        }
        self.module.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.module.pop();
    }
}

/// The size of the largest set of nodes that reach each other.
fn largest(edges: &[BTreeSet<usize>]) -> usize {
    let reached: Vec<BTreeSet<usize>> = (0..edges.len()).map(|from| reach(edges, from)).collect();
    let circle = |from: usize| {
        let others = reached[from]
            .iter()
            .filter(|to| reached[**to].contains(&from));
        others.count().max(1)
    };
    (0..edges.len()).map(circle).max().unwrap_or(0)
}

fn reach(edges: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut next = vec![from];
    while let Some(at) = next.pop() {
        next.extend(edges[at].iter().filter(|to| seen.insert(**to)));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle(sources: &[(&str, &str)]) -> usize {
        let files: Vec<File> = sources
            .iter()
            .map(|(path, text)| File {
                package: "p".into(),
                path: path.into(),
                text: (*text).into(),
            })
            .collect();
        circles(&files).expect("sources that parse")[0].1
    }

    #[test]
    fn files_that_use_each_other_are_a_circle() {
        let round = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; fn f() -> B { B }"),
            ("b/mod.rs", "fn g() { super::c::g() }"),
            ("c.rs", "pub fn g() { crate::a::f() }"),
        ];
        assert_eq!(circle(&round), 3);
        let line = [round[0], round[1], round[2], ("c.rs", "pub fn g() {}")];
        assert_eq!(circle(&line), 1);
    }

    #[test]
    fn names_are_followed_to_where_they_are_declared() {
        let passed_on = [
            ("lib.rs", "mod a; mod b; pub use b::B;"),
            ("a.rs", "use crate::B;"),
            ("b.rs", "pub struct B;"),
        ];
        assert_eq!(circle(&passed_on), 1);
        let back = [passed_on[0], passed_on[1], ("b.rs", "use crate::a;")];
        assert_eq!(circle(&back), 2);
    }

    #[test]
    fn tests_are_no_part_of_a_file() {
        let tests = [
            ("lib.rs", "mod a; mod b;"),
            (
                "a.rs",
                "use crate::b::B; #[cfg(test)] mod tests { static A: u8 = 0; }",
            ),
            (
                "b.rs",
                "static B: u8 = 0; #[cfg(test)] mod tests { use crate::a; }",
            ),
        ];
        assert_eq!(circle(&tests), 1);
        assert_eq!(tests.map(|(_, text)| statics(text)), [0, 0, 1]);
    }
}
