//! The interfaces between C and Rust: a header declares the functions that Rust defines.
//!
//! Functions and structures of both are compared by the types of their arguments and fields, in
//! their order. Types of one representation count as one: C's enumerations are `int`, and `char` is
//! `uint8_t`. Neither compiler sees the other's side, so a difference would be undefined behaviour.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// A header, and the file or directory of Rust with its functions.
struct Interface {
    header: &'static str,
    rust: &'static str,
}

const INTERFACES: [Interface; 2] = [
    Interface {
        header: "extension/encdb/src/pgext.h",
        rust: "crates/encdb/pgext/src/abi",
    },
    Interface {
        header: "crates/encdb/library/include/pgseal_client.h",
        rust: "crates/encdb/library/src/abi.rs",
    },
];

/// The types of each function, its result first, and of each structure's fields.
type Shapes = BTreeMap<String, Vec<String>>;

/// Returns all differences between the sides of each interface.
pub fn check(root: &Path) -> io::Result<Vec<String>> {
    let findings = INTERFACES.iter().map(|it| it.check(root));
    Ok(findings.collect::<io::Result<Vec<_>>>()?.concat())
}

impl Interface {
    fn check(&self, root: &Path) -> io::Result<Vec<String>> {
        let header = shapes_of_header(&fs::read_to_string(root.join(self.header))?);
        let mut rust = Shapes::new();
        for file in files(&root.join(self.rust))? {
            rust.append(&mut shapes_of_rust(&fs::read_to_string(file)?));
        }
        let differences = differences(&header, &rust);
        let finding = |it: String| format!("{}: {it}", self.header);
        Ok(differences.into_iter().map(finding).collect())
    }
}

/// Returns a file itself, or the files in a directory.
fn files(path: &Path) -> io::Result<Vec<PathBuf>> {
    match path.is_dir() {
        true => fs::read_dir(path)?.map(|it| Ok(it?.path())).collect(),
        false => Ok(vec![path.to_owned()]),
    }
}

fn differences(header: &Shapes, rust: &Shapes) -> Vec<String> {
    let shown = |shapes: &Shapes, name: &String| {
        let shape = shapes.get(name).map(|types| types.join(", "));
        shape.unwrap_or_else(|| "missing".to_owned())
    };
    let mut names: Vec<&String> = header.keys().chain(rust.keys()).collect();
    names.sort();
    names.dedup();
    let differs = |name: &&String| header.get(*name) != rust.get(*name);
    let finding = |name: &String| {
        let (header, rust) = (shown(header, name), shown(rust, name));
        format!("{name}: {header}; in Rust: {rust}")
    };
    names.into_iter().filter(differs).map(finding).collect()
}

fn shapes_of_header(text: &str) -> Shapes {
    let text = without_comments(text);
    let structures = text.split("typedef struct ").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once('{')?;
        let fields = rest.split_once('}')?.0.split(';');
        let fields = fields.map(str::trim).filter(|field| !field.is_empty());
        Some((name.trim().to_owned(), fields.map(c_type).collect()))
    });
    let functions = text.split("extern ").skip(1).filter_map(|rest| {
        let (declaration, rest) = rest.split_once('(')?;
        let name = last_name(declaration).to_owned();
        let mut types = vec![c_type(declaration)];
        let arguments = rest.split_once(");")?.0;
        types.extend(
            arguments
                .split(',')
                .filter(|a| a.trim() != "void")
                .map(c_type),
        );
        Some((name, types))
    });
    structures.chain(functions).collect()
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    let code = parts.filter_map(|part| Some(part.split_once("*/")?.1));
    code.fold(first, |all, part| all + part)
}

fn last_name(declaration: &str) -> &str {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = declaration.trim_end();
    let start = end.rfind(|c| !is_of_name(c)).map_or(0, |at| at + 1);
    &end[start..]
}

/// The type in a declaration of C, without the name that is declared.
fn c_type(declaration: &str) -> String {
    if let Some((result, rest)) = declaration.split_once("(*") {
        let arguments = rest.rsplit_once('(').map_or("", |(_, arguments)| arguments);
        let arguments = arguments.trim_end_matches(')').split(',').map(c_type);
        let arguments = arguments.collect::<Vec<_>>().join(", ");
        return format!("{}(*)({arguments})", c_words(result));
    }
    if let Some((element, size)) = declaration.split_once('[') {
        return format!("{}[{}]", c_type(element), size.trim_end_matches(']').trim());
    }
    let declaration = declaration.trim();
    c_words(&declaration[..declaration.len() - last_name(declaration).len()])
}

fn c_words(text: &str) -> String {
    let text = text.replace('*', " * ");
    let words = text.split_whitespace().filter(|word| *word != "volatile");
    let word = |word| match word {
        "char" => "uint8_t",
        "PgsealPeer" | "PgsealRemedy" => "int",
        "pgseal_client" => "Running",
        word => word,
    };
    words.map(word).collect::<Vec<_>>().join(" ")
}

fn shapes_of_rust(text: &str) -> Shapes {
    let structures = text.split("#[repr(C)]").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once("pub struct ")?.1.split_once('{')?;
        let lines = rest.split_once('}')?.0.lines().map(str::trim);
        let fields = lines.filter(|line| !line.starts_with("//") && !line.is_empty());
        Some((name.trim().to_owned(), fields.filter_map(of_pair).collect()))
    });
    let text = text.replace("extern \"C\" fn pgseal_", "    fn pgseal_");
    let functions = text.split("    fn pgseal_").skip(1).filter_map(|rest| {
        let (name, rest) = rest.split_once('(')?;
        let (arguments, rest) = rest.split_once(')')?;
        let result = rest.split_once('{')?.0.trim();
        let mut types = vec![result
            .strip_prefix("->")
            .map_or("void".to_owned(), rust_type)];
        types.extend(arguments.split(',').filter_map(of_pair));
        Some((format!("pgseal_{name}"), types))
    });
    structures.chain(functions).collect()
}

/// The type of `name: type`.
fn of_pair(text: &str) -> Option<String> {
    let (_, ty) = text.split_once(':')?;
    Some(rust_type(ty.trim().trim_end_matches(',')))
}

/// A type of Rust as C has it.
fn rust_type(ty: &str) -> String {
    let ty = ty.trim();
    if let Some(inner) = ty.strip_prefix("*const ") {
        let inner = rust_type(inner);
        // C writes the const of a pointer behind its star.
        return match inner.ends_with('*') {
            true => format!("{inner} const *"),
            false => format!("const {inner} *"),
        };
    }
    if let Some(inner) = ty.strip_prefix("*mut ") {
        return format!("{} *", rust_type(inner));
    }
    if let Some((element, size)) = ty.strip_prefix('[').and_then(|ty| ty.split_once(';')) {
        let size = size
            .trim()
            .trim_end_matches(']')
            .replace("MAX_", "PGSEAL_MOST_");
        return format!("{}[{size}]", rust_type(element));
    }
    let name = match ty {
        "c_int" => "int",
        "c_char" | "u8" => "uint8_t",
        "i8" => "int8_t",
        "u32" => "uint32_t",
        "i32" => "int32_t",
        "u64" => "uint64_t",
        "i64" => "int64_t",
        "usize" => "size_t",
        "IsWorker" => "int(*)(int)",
        name => name,
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const C: &str = "typedef struct PgsealA {\n uint8_t key[16]; /* x */\n const char *name;\n \
        int (*is_worker) (int process);\n const volatile int *die;\n} PgsealA;\n\
        extern int pgseal_a(const PgsealA *rows, size_t nrows);\nextern void pgseal_b(void);\n\
        extern void pgseal_d(const char *const *names, char **error);\n";
    const SAME: &str = "#[repr(C)]\npub struct PgsealA {\n    /// A key.\n    key: [u8; 16],\n    \
        name: *const c_char,\n    is_worker: IsWorker,\n    die: *const c_int,\n}\n\n    \
        fn pgseal_a(rows: *const PgsealA, nrows: usize) -> c_int {\n    fn pgseal_b() {\n\
        pub extern \"C\" fn pgseal_d(\n    names: *const *const c_char,\n    \
        error: *mut *mut c_char,\n) {\n";

    fn compared(rust: &str) -> Vec<String> {
        differences(&shapes_of_header(C), &shapes_of_rust(rust))
    }

    #[test]
    fn both_sides_of_one_interface_agree() {
        assert_eq!(shapes_of_header(C).len(), 4);
        assert_eq!(compared(SAME), Vec::<String>::new());
    }

    #[test]
    fn each_difference_is_found() {
        for (from, to) in [
            ("[u8; 16]", "[u8; 32]"),
            ("*const c_char", "*mut c_char"),
            ("nrows: usize", "nrows: u32"),
            (") -> c_int", ")"),
            ("fn pgseal_b", "fn pgseal_c"),
            ("*const *const c_char", "*const *mut c_char"),
            ("    die: *const c_int,\n", ""),
        ] {
            let other = SAME.replacen(from, to, 1);
            assert_ne!(other, SAME);
            assert_ne!(compared(&other), Vec::<String>::new(), "{to}");
        }
    }
}
