//! The rows of TPC-H's eight tables at any scale, as CSV.
//!
//! They are made here because go-tpc knows whole scale factors only. Numbers of rows, ranges of
//! values and dependencies between columns follow the specification (4.2.3), so that conditions
//! select the same shares. Comments are words in random order, and the words of part names are our
//! own list. The same scale and seed give the same rows.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use fastrand::Rng;

use crate::error::{files, BenchError};
use crate::recipes::tpch::Scale;

const REGIONS: [&str; 5] = ["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"];
/// The nations, with their regions.
const NATIONS: [(&str, usize); 25] = [
    ("ALGERIA", 0),
    ("ARGENTINA", 1),
    ("BRAZIL", 1),
    ("CANADA", 1),
    ("EGYPT", 4),
    ("ETHIOPIA", 0),
    ("FRANCE", 3),
    ("GERMANY", 3),
    ("INDIA", 2),
    ("INDONESIA", 2),
    ("IRAN", 4),
    ("IRAQ", 4),
    ("JAPAN", 2),
    ("JORDAN", 4),
    ("KENYA", 0),
    ("MOROCCO", 0),
    ("MOZAMBIQUE", 0),
    ("PERU", 1),
    ("CHINA", 2),
    ("ROMANIA", 3),
    ("SAUDI ARABIA", 4),
    ("VIETNAM", 2),
    ("RUSSIA", 3),
    ("UNITED KINGDOM", 3),
    ("UNITED STATES", 1),
];
const SEGMENTS: &str = "AUTOMOBILE BUILDING FURNITURE HOUSEHOLD MACHINERY";
const PRIORITIES: [&str; 5] = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"];
const INSTRUCTIONS: [&str; 4] = [
    "DELIVER IN PERSON",
    "COLLECT COD",
    "TAKE BACK RETURN",
    "NONE",
];
const MODES: [&str; 7] = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"];
const TYPES: [&str; 3] = [
    "STANDARD SMALL MEDIUM LARGE ECONOMY PROMO",
    "ANODIZED BURNISHED PLATED POLISHED BRUSHED",
    "TIN NICKEL BRASS STEEL COPPER",
];
const CONTAINERS: [&str; 2] = ["SM MED JUMBO WRAP LG", "CASE BOX BAG PKG JAR DRUM CAN PACK"];
/// As many as the specification has; two of them are in queries.
const COLOURS: &str = "amber apricot aqua ash auburn azure beige black blue bone brick bronze \
    brown buff burgundy camel canary carmine cerise cherry chestnut claret clay cobalt coffee \
    copper coral cream crimson cyan denim ebony ecru emerald fawn flax forest fuchsia garnet gold \
    graphite green grey hazel honey indigo ink iris ivory jade jet khaki lavender lemon lilac \
    lime linen magenta mahogany maize maroon mauve mint moss mustard navy ochre olive onyx orange \
    orchid peach pearl pewter pink plum puce red rose ruby rust saffron sage sand scarlet sepia \
    silver slate tan teal turquoise white";
const WORDS: &str =
    "a about above after again all almost and are arrived at been before box boxes \
    broken by carefully changed counted crate damp delayed delivery door early every for found \
    from goods had has in invoice it label large late left letter light made many marked more \
    never next of old on order paid paper parcel partly price quick quiet rarely regular requests \
    returned ring second sent shelf short slow small some soon special still stock that the then \
    them they this to two under unusual until used very was week well were with without";
/// Of ten thousand orders, so many have a comment with "special" and "requests" in this order.
const SPECIAL_ORDERS: u32 = 100;

/// Days of 1992-01-01, and of the last order: 1998-08-02.
const FIRST_DAY: i64 = 8035;
const LAST_ORDER: i64 = 10_440;
/// 1995-06-17, the specification's current date.
const TODAY: i64 = 9298;

/// The rows of one scale.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    suppliers: i64,
    parts: i64,
    customers: i64,
    orders: i64,
}

impl Size {
    /// Returns the numbers of rows at a scale.
    pub(super) fn of(scale: Scale) -> Self {
        let rows = |at_one| i64::try_from(scale.of(at_one)).expect("a scale is small");
        Self {
            suppliers: rows(10_000),
            parts: rows(200_000),
            customers: rows(150_000),
            orders: rows(1_500_000),
        }
    }
}

/// Writes all tables into a directory, each into a file `NAME.csv`.
pub(super) fn write(size: Size, seed: u64, directory: &Path) -> Result<(), BenchError> {
    let unwritable = || files(directory);
    let mut maker = Maker {
        size,
        random: Rng::with_seed(seed),
        words: WORDS.split(' ').collect(),
    };
    let open = |name: &str| File::create(directory.join(format!("{name}.csv"))).map(BufWriter::new);
    for (name, rows) in [
        (
            "region",
            Maker::regions as fn(&mut Maker, &mut Out) -> io::Result<()>,
        ),
        ("nation", Maker::nations),
        ("supplier", Maker::suppliers),
        ("part", Maker::parts),
        ("partsupp", Maker::partsupps),
        ("customer", Maker::customers),
    ] {
        let mut out = open(name).map_err(unwritable())?;
        let written = rows(&mut maker, &mut out).and_then(|()| out.flush());
        written.map_err(unwritable())?;
    }
    let (orders, items) = (open("orders"), open("lineitem"));
    let (mut orders, mut items) = (orders.map_err(unwritable())?, items.map_err(unwritable())?);
    let written = maker.orders(&mut orders, &mut items);
    let flushed = written
        .and_then(|()| orders.flush())
        .and_then(|()| items.flush());
    flushed.map_err(unwritable())
}

type Out = BufWriter<File>;

struct Maker {
    size: Size,
    random: Rng,
    words: Vec<&'static str>,
}

impl Maker {
    fn regions(&mut self, out: &mut Out) -> io::Result<()> {
        for (key, name) in REGIONS.iter().enumerate() {
            writeln!(out, "{key},{name},{}", self.comment(31, 115))?;
        }
        Ok(())
    }

    fn nations(&mut self, out: &mut Out) -> io::Result<()> {
        for (key, (name, region)) in NATIONS.iter().enumerate() {
            writeln!(out, "{key},{name},{region},{}", self.comment(31, 114))?;
        }
        Ok(())
    }

    fn suppliers(&mut self, out: &mut Out) -> io::Result<()> {
        for key in 1..=self.size.suppliers {
            let (address, nation) = (self.address(), self.random.i64(0..25));
            let (phone, balance) = (self.phone(nation), self.cents(-99_999, 999_999));
            // Five of ten thousand, and one in any case.
            let comment = match key % 2000 {
                1 => "two Customer letter Complaints".to_owned(),
                2 => "two Customer letter Recommends".to_owned(),
                _ => self.comment(25, 100),
            };
            writeln!(
                out,
                "{key},Supplier#{key:09},{address},{nation},{phone},{balance},{comment}"
            )?;
        }
        Ok(())
    }

    fn parts(&mut self, out: &mut Out) -> io::Result<()> {
        let mut colours: Vec<&str> = COLOURS.split_whitespace().collect();
        for key in 1..=self.size.parts {
            for place in 0..5 {
                let other = self.random.usize(place..colours.len());
                colours.swap(place, other);
            }
            let name = colours[..5].join(" ");
            let (maker, brand) = (self.random.u8(1..=5), self.random.u8(1..=5));
            let kind = TYPES.map(|syllables| self.one_of(syllables)).join(" ");
            let container = CONTAINERS.map(|syllables| self.one_of(syllables)).join(" ");
            let (size, comment) = (self.random.u8(1..=50), self.comment(5, 22));
            let price = decimal(retail_price(key));
            writeln!(
                out,
                "{key},{name},Manufacturer#{maker},Brand#{maker}{brand},{kind},{size},{container},\
                 {price},{comment}"
            )?;
        }
        Ok(())
    }

    fn partsupps(&mut self, out: &mut Out) -> io::Result<()> {
        for part in 1..=self.size.parts {
            for place in 0..4 {
                let supplier = self.supplier(part, place);
                let (quantity, cost) = (self.random.u16(1..=9999), self.cents(100, 100_000));
                let comment = self.comment(49, 198);
                writeln!(out, "{part},{supplier},{quantity},{cost},{comment}")?;
            }
        }
        Ok(())
    }

    fn customers(&mut self, out: &mut Out) -> io::Result<()> {
        for key in 1..=self.size.customers {
            let (address, nation) = (self.address(), self.random.i64(0..25));
            let (phone, balance) = (self.phone(nation), self.cents(-99_999, 999_999));
            let (segment, comment) = (self.one_of(SEGMENTS), self.comment(29, 116));
            writeln!(
                out,
                "{key},Customer#{key:09},{address},{nation},{phone},{balance},{segment},{comment}"
            )?;
        }
        Ok(())
    }

    fn orders(&mut self, orders: &mut Out, items: &mut Out) -> io::Result<()> {
        let clerks = (self.size.orders / 1500).max(1);
        for number in 0..self.size.orders {
            // Eight of 32 keys are used.
            let key = number / 8 * 32 + number % 8 + 1;
            let day = self.random.i64(FIRST_DAY..=LAST_ORDER);
            let (total, status) = self.items(key, day, items)?;
            let customer = self.customer();
            let (priority, clerk) = (self.choose(&PRIORITIES), self.random.i64(1..=clerks));
            let comment = match self.random.u32(0..10_000) < SPECIAL_ORDERS {
                true => "some special late requests".to_owned(),
                false => self.comment(19, 78).replace("special", "regular"),
            };
            writeln!(
                orders,
                "{key},{customer},{status},{},{},{priority},Clerk#{clerk:09},0,{comment}",
                decimal(total),
                date(day)
            )?;
        }
        Ok(())
    }

    /// Writes an order's items, and returns its price in cents and its status.
    fn items(&mut self, order: i64, day: i64, out: &mut Out) -> io::Result<(i64, char)> {
        let (number, mut total, mut open) = (self.random.i64(1..=7), 0, 0);
        for line in 1..=number {
            let part = self.random.i64(1..=self.size.parts);
            let place = self.random.i64(0..4);
            let (supplier, quantity) = (self.supplier(part, place), self.random.i64(1..=50));
            let price = quantity * retail_price(part);
            let (discount, tax) = (self.random.i64(0..=10), self.random.i64(0..=8));
            let ship = day + self.random.i64(1..=121);
            let (commit, receipt) = (
                day + self.random.i64(30..=90),
                ship + self.random.i64(1..=30),
            );
            let returned = match receipt <= TODAY {
                true => self.choose(&["R", "A"]),
                false => "N",
            };
            let status = if ship > TODAY { "O" } else { "F" };
            open += i64::from(ship > TODAY);
            total += (price * (100 + tax) * (100 - discount) + 5_000) / 10_000;
            let (instruction, mode) = (self.choose(&INSTRUCTIONS), self.choose(&MODES));
            let comment = self.comment(10, 43);
            writeln!(
                out,
                "{order},{part},{supplier},{line},{quantity}.00,{},{},{},{returned},{status},\
                 {},{},{},{instruction},{mode},{comment}",
                decimal(price),
                decimal(discount),
                decimal(tax),
                date(ship),
                date(commit),
                date(receipt)
            )?;
        }
        let status = match open {
            0 => 'F',
            all if all == number => 'O',
            _ => 'P',
        };
        Ok((total, status))
    }

    /// One of four suppliers of a part. They differ at every scale.
    fn supplier(&self, part: i64, place: i64) -> i64 {
        let all = self.size.suppliers;
        (part + part / all + place * (all / 4)) % all + 1
    }

    /// Every third customer has no order.
    fn customer(&mut self) -> i64 {
        loop {
            let customer = self.random.i64(1..=self.size.customers);
            if customer % 3 != 0 {
                return customer;
            }
        }
    }

    fn comment(&mut self, least: usize, most: usize) -> String {
        let length = self.random.usize(least..=most);
        let mut text = String::with_capacity(length + 12);
        while text.len() < length {
            text.push_str(self.words[self.random.usize(..self.words.len())]);
            text.push(' ');
        }
        text.truncate(length);
        text.truncate(text.trim_end().len());
        text
    }

    fn address(&mut self) -> String {
        let length = self.random.usize(10..=40);
        (0..length).map(|_| self.random.alphanumeric()).collect()
    }

    fn phone(&mut self, nation: i64) -> String {
        let (a, b) = (self.random.u16(100..1000), self.random.u16(100..1000));
        format!("{}-{a}-{b}-{}", nation + 10, self.random.u16(1000..10_000))
    }

    fn cents(&mut self, least: i64, most: i64) -> String {
        decimal(self.random.i64(least..=most))
    }

    fn one_of(&mut self, words: &'static str) -> &'static str {
        let words: Vec<_> = words.split(' ').collect();
        self.choose(&words)
    }

    fn choose(&mut self, among: &[&'static str]) -> &'static str {
        among[self.random.usize(..among.len())]
    }
}

/// The price of a part, in cents.
fn retail_price(part: i64) -> i64 {
    90_000 + part / 10 % 20_001 + 100 * (part % 1000)
}

fn decimal(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", cents.abs() / 100, cents.abs() % 100)
}

/// The date of a day since 1970-01-01, in years of which every fourth is a leap year.
fn date(day: i64) -> String {
    const MONTHS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let (mut year, mut rest) = (1970, day);
    loop {
        let leap = i64::from(year % 4 == 0);
        if rest < 365 + leap {
            let mut month = 0;
            loop {
                let days = MONTHS[month] + if month == 1 { leap } else { 0 };
                if rest < days {
                    return format!("{year}-{:02}-{:02}", month + 1, rest + 1);
                }
                rest -= days;
                month += 1;
            }
        }
        rest -= 365 + leap;
        year += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        let of = [FIRST_DAY, LAST_ORDER, TODAY, 0, 59, 789].map(date);
        let dates = [
            "1992-01-01",
            "1998-08-02",
            "1995-06-17",
            "1970-01-01",
            "1970-03-01",
            "1972-02-29",
        ];
        assert_eq!(of, dates);
    }

    #[test]
    fn amounts_have_cents() {
        assert_eq!([-5, 0, 99_999].map(decimal), ["-0.05", "0.00", "999.99"]);
    }

    #[test]
    fn a_part_has_four_suppliers_at_every_scale() {
        for scale in [1, 2, 20, 100] {
            let size = Size::of(Scale(scale));
            let maker = Maker {
                size,
                random: Rng::with_seed(1),
                words: Vec::new(),
            };
            for part in 1..=size.parts {
                let mut four: Vec<_> = (0..4).map(|place| maker.supplier(part, place)).collect();
                four.sort_unstable();
                four.dedup();
                assert_eq!(four.len(), 4, "{scale}, {part}");
                assert!(four[0] >= 1 && four[3] <= size.suppliers);
            }
        }
    }

    #[test]
    fn there_are_as_many_words_as_the_specification_has() {
        assert_eq!(COLOURS.split_whitespace().count(), 92);
    }
}
