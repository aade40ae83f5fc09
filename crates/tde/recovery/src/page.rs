//! The page that is printed: what it is, the ten lines, and what to do with it; and the lines once
//! more as a code for a camera.

use std::fmt::Write;

use fast_qr::qr::QRBuilder;
use fast_qr::ECL;
use zeroize::Zeroizing;

use crate::{Part, Sheet};

/// The text of a page beside the sheet itself.
pub struct About<'a> {
    /// the version of the program that made it
    pub version: &'a str,
    /// the date, as it is to be printed
    pub date: &'a str,
}

/// White modules around a code, without which cameras do not find it.
const MARGIN: usize = 4;

impl Sheet {
    /// Returns the page as text of at most 80 columns.
    pub fn page(&self, about: &About<'_>) -> Zeroizing<String> {
        let lines = self.lines();
        let before = self.before(about);
        let after = self.after();
        let mut out = String::with_capacity(before.len() + lines.len() + after.len());
        out.push_str(&before);
        out.push_str(&lines);
        out.push_str(&after);
        Zeroizing::new(out)
    }

    fn before(&self, about: &About<'_>) -> String {
        let header = self.key.header();
        let (title, warning) = match &self.part {
            Part::Whole(_) => ("PGSEAL RECOVERY SHEET".to_owned(), WHOLE.to_owned()),
            Part::Share { count, index, .. } => (
                format!("PGSEAL RECOVERY SHARE {index} OF {}", count.made()),
                format!(
                    "Any {} of the {} shares are the key of a PostgreSQL cluster, for good. Fewer are\n\
                     worth nothing. Keep each with another person or in another place.\n",
                    count.needed(),
                    count.made()
                ),
            ),
        };
        let bits = header.length.bits();
        format!(
            "{title}\n\n{warning}\n\
             cluster id   {}\n\
             key id       {}\n\
             AES keys     {bits} bits\n\
             made         {}\n\
             made by      pgseal {}\n\n",
            header.cluster, header.key_id, about.date, about.version
        )
    }

    fn after(&self) -> String {
        let mut out = String::new();
        let (command, repeated) = match &self.part {
            Part::Whole(_) => ("--sheet FILE", String::new()),
            Part::Share { count, .. } => (
                "--share FILE ...",
                format!("Give --share once for each of {} shares. ", count.needed()),
            ),
        };
        write!(
            out,
            "\nTo make the key file of the cluster anew:\n\n\
             - Type the ten lines, with their numbers, into a file that only you can read, or\n  \
               scan the code. Spaces and upper case do not matter.\n\
             - With the cluster's files, and its server stopped, run\n\n    \
               pgseal key restore -D DATADIR {command} --new-passphrase\n\n  \
               {repeated}A mistyped line is named.\n  \
               --help lists other ways to protect the key.\n\
             - Remove the file.\n"
        )
        .expect("a text takes what is written");
        out
    }

    /// Returns the ten lines as a QR code: a drawing that refers to nothing outside.
    pub fn code(&self) -> Zeroizing<String> {
        let lines = self.lines();
        let code = QRBuilder::new(lines.as_bytes()).ecl(ECL::M).build();
        let code = code.expect("ten lines fit into a code of medium size");
        let side = code.size + 2 * MARGIN;
        let mut out = Zeroizing::new(String::with_capacity(code.size * code.size * 12));
        let begun = write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {side} {side}\" \
             width=\"120mm\" height=\"120mm\" shape-rendering=\"crispEdges\">\
             <path fill=\"#fff\" d=\"M0 0h{side}v{side}H0z\"/><path d=\""
        );
        begun.expect("a text takes what is written");
        for y in 0..code.size {
            for x in (0..code.size).filter(|x| code[y][*x].value()) {
                let dark = write!(out, "M{} {}h1v1h-1z", x + MARGIN, y + MARGIN);
                dark.expect("a text takes what is written");
            }
        }
        out.push_str("\"/></svg>\n");
        out
    }
}

const WHOLE: &str =
    "This sheet is the key of a PostgreSQL cluster, for good. Anyone who reads it can\n\
    decrypt the cluster, its backups and its WAL archive, and no later change of a\n\
    passphrase takes that back. Keep it in a safe, and not beside a backup.\n";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sheet::tests::{sheet, wrapped};
    use crate::{split, Count};

    const ABOUT: About<'_> = About {
        version: "0.1.0",
        date: "2026-11-28",
    };

    #[test]
    fn a_page_is_read_as_its_sheet() {
        for sheet in [
            sheet(7),
            split(&wrapped(7), &[1; 32], Count::new(2, 3).expect("a count")).remove(1),
        ] {
            let page = sheet.page(&ABOUT);
            let read = Sheet::parse(&page).expect("a sheet");
            assert_eq!(*read.lines(), *sheet.lines());
            let longest = page.lines().map(str::len).max();
            assert!(longest <= Some(80), "{longest:?}");
            assert!(page.contains("cluster id   07070707070707070707070707070707\n"));
        }
    }

    /// A decoder of another origin reads the code.
    #[test]
    fn a_code_is_read_as_its_sheet() {
        let sheet = sheet(9);
        let drawn = sheet.code();
        let side = drawn.split("viewBox=\"0 0 ").nth(1).expect("a size");
        let side: usize = side
            .split(' ')
            .next()
            .and_then(|side| side.parse().ok())
            .expect("a size");
        let path = drawn.split("<path d=\"M").nth(1).expect("modules");
        let mut dark = vec![false; side * side];
        for module in path
            .trim_end_matches("h1v1h-1z\"/></svg>\n")
            .split("h1v1h-1zM")
        {
            let (x, y) = module.split_once(' ').expect("a place");
            let place = |text: &str| text.parse::<usize>().expect("a number");
            dark[place(y) * side + place(x)] = true;
        }
        const SCALE: usize = 4;
        let dot = |x: usize, y: usize| match dark[y / SCALE * side + x / SCALE] {
            true => 0,
            false => 255,
        };
        let mut picture =
            rqrr::PreparedImage::prepare_from_greyscale(side * SCALE, side * SCALE, dot);
        let grids = picture.detect_grids();
        let (_, text) = grids[0].decode().expect("a code");
        assert_eq!(text, *sheet.lines());
    }
}
