//! The colours of charts: what plotters writes in the SVG for a light page, and the CSS that
//! recolours it for a dark one.
//!
//! Every colour of a chart is one of these, so that the style sheet reaches all of them. The test
//! of the page computes their contrast.

use std::fmt::Write as _;

use plotters::style::RGBColor;

/// A role in charts: its place in [`ROLES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Colour(usize);

/// Name of the CSS variable, on a light page, on a dark page.
struct Role(&'static str, [u8; 3], [u8; 3]);

const ROLES: [Role; 12] = [
    Role("text", [0x3D, 0x46, 0x50], [0xC3, 0xCB, 0xD3]),
    Role("axis", [0x6B, 0x75, 0x80], [0x8B, 0x96, 0xA1]),
    Role("grid", [0xDD, 0xE2, 0xE7], [0x30, 0x38, 0x41]),
    Role("published", [0xB3, 0x26, 0x1E], [0xFF, 0x8A, 0x80]),
    Role("stock", [0x5B, 0x65, 0x70], [0xA5, 0xB0, 0xBC]),
    Role("v1", [0x0B, 0x62, 0xC4], [0x6C, 0xB2, 0xFF]),
    Role("v2", [0xA8, 0x58, 0x00], [0xF0, 0xA0, 0x4B]),
    Role("v3", [0x0A, 0x7D, 0x78], [0x4F, 0xD1, 0xC5]),
    Role("v4", [0xA8, 0x2E, 0x78], [0xF2, 0x8C, 0xC4]),
    Role("v5", [0x4B, 0x7D, 0x0C], [0xA3, 0xD6, 0x5C]),
    Role("v6", [0x6A, 0x3F, 0xC9], [0xB5, 0x9C, 0xFF]),
    Role("v7", [0x7A, 0x4B, 0x2A], [0xD9, 0xA8, 0x7E]),
];
const FIRST_VARIANT: usize = 5;

pub(super) const TEXT: Colour = Colour(0);
pub(super) const AXIS: Colour = Colour(1);
pub(super) const GRID: Colour = Colour(2);
pub(super) const PUBLISHED: Colour = Colour(3);
pub(super) const STOCK: Colour = Colour(4);

impl Colour {
    /// Returns the colour of the variant at this place among those that are not stock. Beyond
    /// seven, variants share colours.
    pub(super) fn of_variant(place: usize) -> Self {
        Self(FIRST_VARIANT + place % (ROLES.len() - FIRST_VARIANT))
    }

    /// The name of its CSS variable.
    pub(super) fn name(self) -> &'static str {
        ROLES[self.0].0
    }

    /// As plotters takes it.
    pub(super) fn rgb(self) -> RGBColor {
        let [red, green, blue] = ROLES[self.0].1;
        RGBColor(red, green, blue)
    }
}

/// The variables for both kinds of page, and rules that give each mark its variable.
pub(super) fn css() -> String {
    let mut css = format!(
        ":root{{{}}}\n@media (prefers-color-scheme:dark){{:root{{{}}}}}\n",
        variables(|role| role.1),
        variables(|role| role.2)
    );
    let published = hex(ROLES[PUBLISHED.0].1);
    css += &format!("svg polyline[stroke=\"{published}\"]{{stroke-dasharray:12 10}}\n");
    for Role(name, light, _) in &ROLES {
        let light = hex(*light);
        for property in ["fill", "stroke"] {
            writeln!(
                css,
                "svg [{property}=\"{light}\"]{{{property}:var(--{name})}}"
            )
            .expect("a string takes every line");
        }
        writeln!(css, ".legend .{name}{{background:var(--{name})}}")
            .expect("a string takes every line");
    }
    css
}

fn variables(of: impl Fn(&Role) -> [u8; 3]) -> String {
    ROLES
        .iter()
        .map(|role| format!("--{}:{};", role.0, hex(of(role))))
        .collect()
}

/// As plotters writes it.
fn hex([red, green, blue]: [u8; 3]) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}
