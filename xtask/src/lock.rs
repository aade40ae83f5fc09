//! Lock files of workspaces beside the tree's own, that of `fuzz` first: no build of the tree reads
//! them.
//!
//! A lock file is stale when a crate of the tree has other dependencies in its manifest than in the
//! lock file, or the tree uses them in another version. Cargo would say so too, but it asks a
//! registry for crates that only the fuzzers need.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::{fs, io};

const OWN: &str = "Cargo.lock";

/// A package of a lock file.
#[derive(Default)]
struct Package {
    name: String,
    version: String,
    is_own: bool,
    /// The names of its dependencies, each with a version if the lock file has several
    dependencies: Vec<String>,
}

/// The names of a package's dependencies, except those of tests.
#[derive(Debug, Default)]
struct Dependencies {
    needed: BTreeSet<String>,
    /// Those of features, which are in a lock file only where a feature is on.
    optional: BTreeSet<String>,
}

impl Dependencies {
    /// Whether a lock file may have these.
    fn are(&self, names: &BTreeSet<String>) -> bool {
        let mut more = names.difference(&self.needed);
        self.needed.is_subset(names) && more.all(|name| self.optional.contains(name))
    }
}

/// Returns the findings in all lock files except the tree's own.
pub fn check(root: &Path, names: &[String]) -> io::Result<Vec<String>> {
    let own = packages(&fs::read_to_string(root.join(OWN))?);
    let mut manifests = BTreeMap::new();
    for name in names.iter().filter(|name| name.ends_with("Cargo.toml")) {
        let (package, dependencies) = manifest(&fs::read_to_string(root.join(name))?);
        manifests.insert(package, dependencies);
    }
    let mut findings = Vec::new();
    for name in names.iter().filter(|name| name.ends_with("/Cargo.lock")) {
        let lock = packages(&fs::read_to_string(root.join(name))?);
        let manifest = name.replace(".lock", ".toml");
        let stale = stale(&lock, &own, &manifests).into_iter();
        findings.extend(stale.map(|what| {
            format!("{name}:1: {what}: run cargo metadata --manifest-path {manifest}")
        }));
    }
    Ok(findings)
}

/// Returns what in a lock file is not as manifests and the tree's lock file say.
fn stale(
    lock: &[Package],
    own: &[Package],
    manifests: &BTreeMap<String, Dependencies>,
) -> Vec<String> {
    let mut found = Vec::new();
    for package in lock.iter().filter(|package| package.is_own) {
        let name = &package.name;
        let has: BTreeSet<String> = package.dependencies.iter().map(|it| bare(it)).collect();
        if !manifests.get(name).is_some_and(|known| known.are(&has)) {
            found.push(format!("{name} has other dependencies"));
        }
        let Some(known) = own.iter().find(|it| it.is_own && it.name == *name) else {
            continue;
        };
        for dependency in &package.dependencies {
            let same = |it: &&String| bare(it) == bare(dependency);
            let wanted = known.dependencies.iter().find(same);
            let wanted = wanted.and_then(|it| release(own, it));
            if wanted.is_some() && wanted != release(lock, dependency) {
                found.push(format!("{name} uses another version of {dependency}"));
            }
        }
    }
    found
}

/// Returns a dependency's name without its version.
fn bare(dependency: &str) -> String {
    let name = dependency.split(' ').next();
    name.unwrap_or(dependency).to_owned()
}

/// Returns the part of a dependency's version that distinguishes incompatible ones: up to the first
/// number that is not zero.
fn release(lock: &[Package], dependency: &str) -> Option<String> {
    let mut words = dependency.split(' ');
    let (name, version) = (words.next()?, words.next());
    let is_it = |it: &&Package| it.name == name && version.is_none_or(|given| it.version == given);
    let version = &lock.iter().find(is_it)?.version;
    let zeros = version
        .split('.')
        .take_while(|number| *number == "0")
        .count();
    let numbers: Vec<&str> = version.split('.').take(zeros + 1).collect();
    Some(numbers.join("."))
}

/// Reads a lock file.
fn packages(text: &str) -> Vec<Package> {
    let parts = text.split("[[package]]\n").skip(1);
    parts.map(package).collect()
}

fn package(part: &str) -> Package {
    let value = |key: &str| {
        let start = format!("{key} = \"");
        let found = part.lines().find_map(|line| line.strip_prefix(&start));
        found.map(|value| value.trim_end_matches('"').to_owned())
    };
    let items = part
        .lines()
        .filter_map(|line| line.strip_prefix(" \"")?.strip_suffix("\","));
    Package {
        name: value("name").unwrap_or_default(),
        version: value("version").unwrap_or_default(),
        is_own: value("source").is_none(),
        dependencies: items.map(str::to_owned).collect(),
    }
}

/// Reads a manifest: the name of its package, and its dependencies.
fn manifest(text: &str) -> (String, Dependencies) {
    let (mut section, mut name, mut found) = ("", String::new(), Dependencies::default());
    for line in text.lines() {
        if let Some(next) = line.strip_prefix('[') {
            section = next.trim_end_matches(']');
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let is_of_dependencies = section.rsplit('.').next().is_some_and(|last| {
            matches!(last, "dependencies" | "build-dependencies")
                && !section.starts_with("workspace")
        });
        let key = key.trim().split('.').next().unwrap_or_default();
        if section == "package" && key == "name" {
            name = value.trim().trim_matches('"').to_owned();
        } else if is_of_dependencies && !key.starts_with([' ', '#', '"', '{', '}', ']']) {
            let is_optional = value.contains("optional = true");
            let names = match is_optional {
                true => &mut found.optional,
                false => &mut found.needed,
            };
            names.insert(key.to_owned());
        }
    }
    (name, found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[package]\nname = \"own\"\n[dependencies]\na.workspace = true\n\
        b = { path = \"../b\" }\ne = { version = \"1\", optional = true }\n\
        [dev-dependencies]\nc = \"1\"\n[build-dependencies]\nd = \"1\"\n";

    fn lock(dependencies: &str, version: &str) -> Vec<Package> {
        packages(&format!(
            "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"{version}\"\nsource = \"x\"\n\n\
             [[package]]\nname = \"own\"\nversion = \"1.0.0\"\ndependencies = [\n{dependencies}]\n"
        ))
    }

    #[test]
    fn a_lock_file_is_stale_when_manifests_or_versions_have_changed() {
        let all = " \"a\",\n \"b\",\n \"d\",\n";
        let (name, dependencies) = manifest(MANIFEST);
        let manifests = BTreeMap::from([(name, dependencies)]);
        let own = lock(all, "0.2.3");
        let found = |dependencies, version| stale(&lock(dependencies, version), &own, &manifests);
        let with_feature = " \"a\",\n \"b\",\n \"d\",\n \"e\",\n";
        assert!(found(with_feature, "0.2.3").is_empty());
        assert!(found(all, "0.2.9").is_empty());
        assert_eq!(
            found(" \"a\",\n \"d\",\n", "0.2.3"),
            ["own has other dependencies"]
        );
        assert_eq!(
            found(" \"a\",\n \"b\",\n \"c\",\n \"d\",\n", "0.2.3"),
            ["own has other dependencies"]
        );
        assert_eq!(found(all, "0.3.0"), ["own uses another version of a"]);
        assert_eq!(found(all, "1.2.3"), ["own uses another version of a"]);
    }
}
