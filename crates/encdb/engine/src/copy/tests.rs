//! Tests of rows: their fields, how they are cut into pieces, and what is refused.

use proptest::prelude::*;

use super::*;
use crate::Seal;
use pgseal_client::Type;
use pgseal_value::Value;

/// Keys whose cells are `<value>`, so that a test can read them in hexadecimal.
struct Legible;

impl Seal for Legible {
    fn seal(&self, _: &str, value: &Value) -> Result<Vec<u8>, Refusal> {
        Ok(format!("<{}>", value.to_text()).into_bytes())
    }
}

impl Keys for Legible {
    fn open(&self, ty: Option<Type>, cell: &[u8]) -> Result<Value, Refusal> {
        let text = std::str::from_utf8(cell).map_err(|_| Refusal::NoCell)?;
        let value = text.strip_prefix('<').and_then(|it| it.strip_suffix('>'));
        let value = value.ok_or(Refusal::NoCell)?;
        Ok(Value::parse(ty.unwrap_or(Type::Text), value)?)
    }
}

fn converter(direction: Direction) -> Converter {
    Converter {
        direction,
        catalog: Arc::new(Catalog::new("k")),
        keys: Arc::new(Legible),
    }
}

/// Returns a plan with a plain column, and some of `enc_text`, `enc_int4` and `enc_text[]`.
fn plan(format: CopyFormat) -> Arc<CopyPlan> {
    let column = |(name, ty): (&str, &str)| CopyColumn {
        name: name.to_owned(),
        cells: Cells::by_type(ty, &"k".into()),
    };
    let columns = [
        ("id", "int4"),
        ("name", "enc_text"),
        ("age", "enc_int4"),
        ("tags", "enc_text[]"),
    ];
    Arc::new(CopyPlan {
        columns: columns.into_iter().map(column).collect(),
        format,
    })
}

fn marks(delimiter: u8, null: &str, header: Header) -> Marks {
    Marks {
        delimiter,
        null: null.into(),
        header,
    }
}

fn text() -> CopyFormat {
    CopyFormat::Text(marks(b'\t', "\\N", Header::None))
}

fn csv(header: Header) -> CopyFormat {
    let quotes = Quotes {
        quote: b'"',
        escape: b'"',
    };
    CopyFormat::Csv(marks(b',', "", header), quotes)
}

/// Returns the rows as they go on, taken in pieces of this many bytes.
fn converted_in(
    format: CopyFormat,
    direction: Direction,
    rows: &[u8],
    piece: usize,
) -> Result<Vec<u8>, Refusal> {
    let (mut copying, by) = (Copying::new(plan(format)), converter(direction));
    let mut out = Vec::new();
    let mut go_on = |taken: Taken| {
        out.extend(taken.rows);
        taken.refused.map_or(Ok(()), Err)
    };
    for part in rows.chunks(piece) {
        go_on(copying.take(part, &by))?;
    }
    go_on(copying.end(&by))?;
    Ok(out)
}

/// Returns rows as the server gets them, with cells legible: `<value>`.
fn sent(format: CopyFormat, rows: &str) -> Result<String, Refusal> {
    let sent = converted_in(format, Direction::ToServer, rows.as_bytes(), 7)?;
    Ok(legible(&String::from_utf8_lossy(&sent)))
}

fn legible(text: &str) -> String {
    let mut parts = text.split("\\x").map(|part| {
        let digits = part.find(|it: char| !it.is_ascii_hexdigit());
        let (cell, rest) = part.split_at(digits.unwrap_or(part.len()));
        let cell = pgseal_client::from_hex(cell).unwrap_or_default();
        format!("{}{rest}", String::from_utf8_lossy(&cell))
    });
    let first = text.split("\\x").next().unwrap_or_default().to_owned();
    parts.next();
    first + &parts.collect::<String>()
}

#[test]
fn fields_of_text_are_read_as_postgresql_reads_them() {
    for (rows, expected) in [
        (
            "1\tada\t36\t{a,NULL}\n",
            "1\t\\<ada>\t\\<36>\t{\"\\\\\\<a>\",NULL}\n",
        ),
        ("1\t\\N\t\\N\t\\N\n", "1\t\\N\t\\N\t\\N\n"),
        ("1\t\t7\t{}", "1\t\\<>\t\\<7>\t{}"),
        (
            "1\ta\\tb\\\\c\\101\\x41\\z\t7\t{}\r\n",
            "1\t\\<a\tb\\cAAz>\t\\<7>\t{}\r\n",
        ),
        (
            "1\ta\\\nb\t7\t{}\n2\tc\t8\t{}\n",
            "1\t\\<a\nb>\t\\<7>\t{}\n2\t\\<c>\t\\<8>\t{}\n",
        ),
        (
            "1\ta\t7\t{}\r2\tc\t8\t{}\r",
            "1\t\\<a>\t\\<7>\t{}\r2\t\\<c>\t\\<8>\t{}\r",
        ),
        ("\\.\n", "\\.\n"),
        ("a\\tb\tx\t-1\t{}\n", "a\\tb\t\\<x>\t\\<-1>\t{}\n"),
        ("", ""),
    ] {
        assert_eq!(sent(text(), rows).expect(rows), expected, "{rows}");
    }
}

#[test]
fn fields_of_csv_are_read_as_postgresql_reads_them() {
    for (rows, expected) in [
        ("1,ada,36,{}\n", "1,\"<ada>\",\"<36>\",\"{}\"\n"),
        ("1,,,\n", "1,,,\n"),
        ("1,\"\",7,{}\n", "1,\"<>\",\"<7>\",\"{}\"\n"),
        (
            "1,\"a,\"\"b\"\"\n\",7,{}\n",
            "1,\"<a,\"b\"\n>\",\"<7>\",\"{}\"\n",
        ),
        ("1,x\"y,z\"w,7,{}\r\n", "1,\"<xy,zw>\",\"<7>\",\"{}\"\r\n"),
    ] {
        assert_eq!(
            sent(csv(Header::None), rows).expect(rows),
            expected,
            "{rows}"
        );
    }
    let quotes = Quotes {
        quote: b'\'',
        escape: b'\\',
    };
    let format = CopyFormat::Csv(marks(b';', "NULL", Header::None), quotes);
    assert_eq!(
        sent(format, "1;'a\\'b\\c;';NULL;'{\"x y\"}'\n").expect("it is right"),
        "1;'\\<a'b\\c;>';NULL;'{\"\\\\\\<x y>\"}'\n"
    );
}

#[test]
fn a_row_of_names_holds_no_value() {
    let rows = "id,ada,36,{}\n1,ada,36,{}\n";
    let expected = "id,\"name\",\"age\",\"tags\"\n1,\"<ada>\",\"<36>\",\"{}\"\n";
    assert_eq!(sent(csv(Header::Ignored), rows).expect("names"), expected);
    assert!(sent(csv(Header::Match), rows).is_err());
    let rows = rows.replacen("ada,36,{}", "name,\"age\",tags", 1);
    assert_eq!(sent(csv(Header::Match), &rows).expect("names"), expected);
}

#[test]
fn a_row_that_is_wrong_is_not_sent() {
    for (format, rows, sqlstate) in [
        (text(), "1\tsecret\n", "22P04"),
        (text(), "1\tsec\tret\t7\t{}\n", "22P04"),
        (text(), "1\tsecret\t99999999999\t{}\n", "22003"),
        (text(), "1\tsecret\tx\t{}\n", "22P02"),
        (text(), "1\tsecret\\.\t7\t{}\n", "22P04"),
        (text(), "1\tsecret\\", "22P04"),
        (csv(Header::None), "1,\"secret,7,{}\n", "22P04"),
        (csv(Header::None), "1,secret,7,{},\n", "22P04"),
        (CopyFormat::Binary, "1\tsecret\t7\t{}\n", "22P04"),
    ] {
        let refused = sent(format, rows).expect_err(rows);
        assert_eq!(refused.sqlstate(), sqlstate, "{rows}: {refused}");
        assert!(!refused.to_string().contains("secret"), "{refused}");
        assert!(
            refused.to_string().starts_with("row 1 of COPY: "),
            "{refused}"
        );
    }
    let bytes = [b"1\t\xff\t7\t{}\n".as_slice(), b"1\t\\377\t7\t{}\n"];
    for row in bytes {
        let refused = converted_in(text(), Direction::ToServer, row, 100);
        assert_eq!(refused.expect_err("no UTF-8").sqlstate(), "22021");
    }
    let (mut copying, by) = (Copying::new(plan(text())), converter(Direction::ToServer));
    let taken = copying.take(b"1\t\\N\t\\N\t\\N\n2\ta\tx\t{}\n", &by);
    let refused = taken.refused.expect("the second").to_string();
    assert!(refused.starts_with("row 2 "));
    assert_eq!(taken.rows, b"1\t\\N\t\\N\t\\N\n");
}

/// Returns rows in binary format.
fn binary(rows: &[[Option<&[u8]>; 4]]) -> Vec<u8> {
    let mut bytes = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\x02xy".to_vec();
    for row in rows {
        bytes.extend([0, 4]);
        for value in row {
            let length = value.map_or(-1, |it| i32::try_from(it.len()).expect("it is short"));
            bytes.extend(length.to_be_bytes());
            bytes.extend(value.unwrap_or_default());
        }
    }
    bytes.extend([0xff, 0xff]);
    bytes
}

#[test]
fn binary_rows_are_sealed_and_opened() {
    let one = 36_i32.to_be_bytes();
    let rows = binary(&[
        [Some(&one), Some(b"ada"), Some(&one), None],
        [None, None, None, None],
    ]);
    let expected = binary(&[
        [Some(&one), Some(b"<ada>"), Some(b"<36>"), None],
        [None, None, None, None],
    ]);
    for piece in [1, 5, 1000] {
        let to = |direction, rows: &[u8]| converted_in(CopyFormat::Binary, direction, rows, piece);
        let sealed = to(Direction::ToServer, &rows).expect("rows");
        assert_eq!(sealed, expected);
        assert_eq!(to(Direction::ToDriver, &sealed).expect("cells"), rows);
    }
    for wrong in [
        &rows[..rows.len() - 3],
        &rows[..10],
        &[&rows[..], b"x"].concat(),
        &[b"PGCOPY\n\xff\r\n\0\0\x01\0\0\0\0\0\0", &rows[21..]].concat(),
    ] {
        let refused = converted_in(CopyFormat::Binary, Direction::ToServer, wrong, 3);
        assert_eq!(refused.expect_err("it is wrong").sqlstate(), "22P04");
    }
}

proptest! {
    /// Any values, written as COPY writes them, come back from the server as they were, in pieces
    /// of any size; and none of them is sent.
    #[test]
    fn what_is_sealed_is_opened_again(
        names in proptest::collection::vec("[a-z\\\\\t\r\n\",'N.]{0,12}", 1..5),
        piece in 1_usize..20,
        is_csv: bool,
    ) {
        let format = || if is_csv { csv(Header::None) } else { text() };
        let row = |name: &String| match is_csv {
            true => format!("1,\"secret{}\",7,{{}}\n", name.replace('"', "\"\"")),
            false => {
                let name = name.replace('\\', "\\\\").replace('\t', "\\t");
                format!("1\tsecret{}\t7\t{{}}\n", name.replace('\n', "\\n").replace('\r', "\\r"))
            }
        };
        let rows: String = names.iter().map(row).collect();
        let to = |direction, rows: &[u8]| converted_in(format(), direction, rows, piece);
        let sealed = to(Direction::ToServer, rows.as_bytes()).expect("rows");
        let at_once = converted_in(format(), Direction::ToServer, rows.as_bytes(), 4096);
        prop_assert_eq!(&sealed, &at_once.expect("rows"));
        prop_assert!(!String::from_utf8_lossy(&sealed).contains("secret"));
        let opened = to(Direction::ToDriver, &sealed).expect("cells");
        let quoted = rows.replace(",7,{}", ",\"7\",\"{}\"");
        prop_assert_eq!(String::from_utf8(opened).expect("text"), quoted);
    }
}
