//! Draws charts with plotters: values in, the inside of an `<svg>` element out.
//!
//! A canvas has twice the units that it takes in pixels on a desk's screen, because plotters places
//! marks at whole units. Circles and rectangles are data, one each; so is a polyline in a variant's
//! colour. What `charts` makes of a report comes here; nothing here knows reports.

use std::io;
use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::coord::Shift;
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::{
    Cartesian2d, ChartBuilder, ChartContext, DrawingArea, DrawingAreaErrorKind, IntoDrawingArea,
    SVGBackend,
};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, IntoFont, TextStyle, TRANSPARENT};

use super::palette::{self, Colour};

pub(super) const WIDTH: u32 = 880;
const LINES_HEIGHT: u32 = 520;
/// plotters makes it 26 units of SVG.
const TEXT_SIZE: f64 = 32.0;
/// A row of bars, and the foot with the axis's labels.
const ROW_HEIGHT: u32 = 40;
const FOOT: u32 = 44;
/// More labels than these would touch.
const MAX_TICKS: usize = 12;

/// How values are shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    /// As the labels show one.
    pub(super) label: fn(f64) -> String,
    /// An axis is at least so long, lest noise looks like much.
    pub(super) least: f64,
}

/// Lines over an axis of numbers.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    pub(super) lines: Vec<Line>,
    /// The scale of the upright axis.
    pub(super) scale: Scale,
    /// As the labels of the level axis show a place.
    pub(super) place: fn(f64) -> String,
    /// Whether each point has a mark.
    pub(super) marks: bool,
}

/// One line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    pub(super) colour: Colour,
    pub(super) points: Vec<Point>,
}

/// A value with its interval, if it has one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) interval: Option<(f64, f64)>,
}

/// Bars that lie under the name of their case.
#[derive(Debug, Clone)]
pub(super) struct Bars {
    pub(super) cases: Vec<BarCase>,
    pub(super) scale: Scale,
}

/// The bars of one case.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BarCase {
    pub(super) name: String,
    pub(super) bars: Vec<Bar>,
    /// Published values, each a row with a diamond.
    pub(super) published: Vec<f64>,
    /// Where the aim is drawn.
    pub(super) aim: Option<f64>,
}

/// A value from zero, with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bar {
    pub(super) colour: Colour,
    pub(super) value: f64,
    pub(super) interval: Option<(f64, f64)>,
}

/// A finished drawing: its height beside [`WIDTH`], and the elements.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Drawn {
    pub(super) height: u32,
    pub(super) elements: String,
}

type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane<'a, 'b, X> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<X, RangedCoordf64>>;
type BarPlane<'a, 'b> = Plane<'a, 'b, RangedCoordf64>;
type LinePlane<'a, 'b> = Plane<'a, 'b, Ticks>;
type Drawing = Result<(), DrawingAreaErrorKind<io::Error>>;

impl Lines {
    /// Draws them; both axes hold zero.
    pub(super) fn draw(&self) -> Drawn {
        on_canvas(LINES_HEIGHT, |canvas| {
            let points = || self.lines.iter().flat_map(|line| &line.points);
            let x = span(points().map(|point| point.x), None, 0.0);
            let y = span(
                points().flat_map(Point::extent),
                Some(0.0),
                self.scale.least,
            );
            let mut plane = ChartBuilder::on(canvas)
                .margin(14)
                .margin_bottom(0)
                .margin_right(34)
                .x_label_area_size(FOOT)
                .y_label_area_size(118)
                .build_cartesian_2d(self.ticks(x.clone()), y)?;
            plane
                .configure_mesh()
                .disable_x_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(palette::GRID.rgb().stroke_width(2))
                .axis_style(palette::AXIS.rgb().stroke_width(2))
                .label_style(text())
                .x_labels(6)
                .y_labels(6)
                .x_label_formatter(&|x| (self.place)(*x))
                .y_label_formatter(&|y| (self.scale.label)(*y))
                .draw()?;
            let beside = (x.end - x.start) * 0.012;
            let middle = place(self.lines.len().saturating_sub(1)) / 2.0;
            for (index, line) in self.lines.iter().enumerate() {
                self.line(&mut plane, line, (place(index) - middle) * beside)?;
            }
            Ok(())
        })
    }

    /// Labels of the level axis: where the cases lie, if each point is one.
    fn ticks(&self, x: Range<f64>) -> Ticks {
        let axis = RangedCoordf64::from(x);
        if !self.marks {
            let places = axis.key_points(6);
            return Ticks { axis, places };
        }
        let points = self.lines.iter().flat_map(|line| &line.points);
        let mut places: Vec<f64> = points.map(|point| point.x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let each = places.len().div_ceil(MAX_TICKS).max(1);
        let places = places.into_iter().step_by(each).collect();
        Ticks { axis, places }
    }

    /// One line; points that have an interval stand beside those of other lines.
    fn line(&self, plane: &mut LinePlane, line: &Line, beside: f64) -> Drawing {
        let x = |point: &Point| point.x + point.interval.map_or(0.0, |_| beside);
        let at: Vec<_> = line
            .points
            .iter()
            .map(|point| (x(point), point.y))
            .collect();
        let stroke = line
            .colour
            .rgb()
            .stroke_width(if self.marks { 4 } else { 3 });
        plane.draw_series([PathElement::new(at.clone(), stroke)])?;
        for point in &line.points {
            if let Some((low, high)) = point.interval {
                let whisker = vec![(x(point), low), (x(point), high)];
                plane
                    .draw_series([PathElement::new(whisker, line.colour.rgb().stroke_width(2))])?;
            }
        }
        if self.marks {
            plane.draw_series(
                at.iter()
                    .map(|at| Circle::new(*at, 7, line.colour.rgb().filled())),
            )?;
        }
        Ok(())
    }
}

/// An axis that has its labels at given places.
struct Ticks {
    axis: RangedCoordf64,
    places: Vec<f64>,
}

impl Ranged for Ticks {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.axis.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.places.clone()
    }

    fn range(&self) -> Range<f64> {
        self.axis.range()
    }
}

impl Point {
    fn extent(&self) -> [f64; 3] {
        let (low, high) = self.interval.unwrap_or((self.y, self.y));
        [low, self.y, high]
    }
}

impl Bars {
    /// Draws them from the top down.
    pub(super) fn draw(&self) -> Drawn {
        let rows: usize = self.cases.iter().map(BarCase::rows).sum();
        let height = u32::try_from(rows).expect("rows of a page") * ROW_HEIGHT + FOOT + 14;
        on_canvas(height, |canvas| {
            let values = self.cases.iter().flat_map(BarCase::values);
            let mut plane = ChartBuilder::on(canvas)
                .margin(14)
                .margin_bottom(0)
                .margin_left(40)
                .margin_right(130)
                .x_label_area_size(FOOT)
                .build_cartesian_2d(span(values, Some(0.0), self.scale.least), place(rows)..0.0)?;
            plane
                .configure_mesh()
                .disable_y_mesh()
                .disable_y_axis()
                .light_line_style(TRANSPARENT)
                .bold_line_style(palette::GRID.rgb().stroke_width(2))
                .axis_style(palette::AXIS.rgb().stroke_width(2))
                .label_style(text())
                .x_labels(6)
                .x_label_formatter(&|x| (self.scale.label)(*x))
                .draw()?;
            let zero = vec![(0.0, 0.0), (0.0, place(rows))];
            plane.draw_series([PathElement::new(zero, palette::AXIS.rgb().stroke_width(2))])?;
            let mut top = 0.0;
            for case in &self.cases {
                self.case(&mut plane, case, top)?;
                top += place(case.rows());
            }
            Ok(())
        })
    }

    /// Name, bars, published values, and the aim beside all of them.
    fn case(&self, plane: &mut BarPlane, case: &BarCase, top: f64) -> Drawing {
        let left = plane.x_range().start;
        let name = text().pos(Pos::new(HPos::Left, VPos::Center));
        plane.draw_series([Text::new(case.name.clone(), (left, top + 0.6), name)])?;
        for (row, bar) in case.bars.iter().enumerate() {
            self.bar(plane, bar, top + 1.0 + place(row))?;
        }
        for (row, value) in case.published.iter().enumerate() {
            self.published(plane, *value, top + 1.5 + place(case.bars.len() + row))?;
        }
        let Some(aim) = case.aim else { return Ok(()) };
        let line = vec![(aim, top + 1.0), (aim, top + place(case.rows()))];
        let stroke = palette::TEXT.rgb().stroke_width(3);
        plane
            .draw_series([PathElement::new(line, stroke)])
            .map(drop)
    }

    fn bar(&self, plane: &mut BarPlane, bar: &Bar, top: f64) -> Drawing {
        let corners = [(0.0, top + 0.16), (bar.value, top + 0.84)];
        plane.draw_series([Rectangle::new(corners, bar.colour.rgb().filled())])?;
        let ends = bar.interval.unwrap_or((bar.value, bar.value));
        if bar.interval.is_some() {
            let whisker = vec![(ends.0, top + 0.5), (ends.1, top + 0.5)];
            plane.draw_series([PathElement::new(
                whisker,
                palette::TEXT.rgb().stroke_width(4),
            )])?;
        }
        self.value(plane, bar.value, top + 0.5, palette::TEXT)
    }

    fn published(&self, plane: &mut BarPlane, value: f64, middle: f64) -> Drawing {
        let (x, wide) = (value, (plane.x_range().end - plane.x_range().start) * 0.014);
        let corners = [
            (x - wide, middle),
            (x, middle - 0.3),
            (x + wide, middle),
            (x, middle + 0.3),
        ];
        plane.draw_series([Polygon::new(corners, palette::PUBLISHED.rgb())])?;
        self.value(plane, value, middle, palette::PUBLISHED)
    }

    /// The value in words at the right edge.
    fn value(&self, plane: &mut BarPlane, value: f64, middle: f64, colour: Colour) -> Drawing {
        let (x, y) = plane.backend_coord(&(plane.x_range().end, middle));
        let rgb = colour.rgb();
        let style = text().color(&rgb).pos(Pos::new(HPos::Left, VPos::Center));
        let area = plane.plotting_area().strip_coord_spec();
        let (left, top) = area.get_base_pixel();
        area.draw(&Text::new(
            (self.scale.label)(value),
            (x - left + 12, y - top),
            style,
        ))
    }
}

impl BarCase {
    fn rows(&self) -> usize {
        1 + self.bars.len() + self.published.len()
    }

    fn values(&self) -> Vec<f64> {
        let intervals = self.bars.iter().filter_map(|bar| bar.interval);
        let ends = intervals.flat_map(|(low, high)| [low, high]);
        let bars = self.bars.iter().map(|bar| bar.value).chain(ends);
        bars.chain(self.published.iter().copied())
            .chain(self.aim)
            .collect()
    }
}

/// A number as an axis shows it: `1.2M`, `500`, `0.25`.
pub(super) fn short(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = if scaled.abs() < 1.0 { 1000.0 } else { 10.0 };
    let rounded = (scaled * digits).round() / digits;
    format!("{}{suffix}", if rounded == 0.0 { 0.0 } else { rounded })
}

fn on_canvas(height: u32, draw: impl FnOnce(&Canvas) -> Drawing) -> Drawn {
    let mut svg = String::new();
    let canvas = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    draw(&canvas)
        .and_then(|()| canvas.present())
        .expect("a string takes every mark");
    drop(canvas);
    let inside = svg
        .split_once('>')
        .and_then(|(_, rest)| rest.rsplit_once("</svg>"));
    let elements = inside
        .expect("plotters opens and closes one svg")
        .0
        .to_owned();
    Drawn { height, elements }
}

/// A range that holds all values and this one, with some room around them, and of this length.
fn span(values: impl Iterator<Item = f64>, with: Option<f64>, least: f64) -> Range<f64> {
    let values = values.chain(with).filter(|value| value.is_finite());
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    });
    if low > high {
        return 0.0..1.0;
    }
    let length = (high - low).max(least);
    let room = if length > 0.0 { length * 0.04 } else { 0.5 };
    let below = if with == Some(low) { 0.0 } else { room };
    low - below..low + length + room
}

fn text() -> TextStyle<'static> {
    ("sans-serif", TEXT_SIZE)
        .into_font()
        .color(&palette::TEXT.rgb())
}

/// A count as a coordinate.
fn place(count: usize) -> f64 {
    f64::from(u32::try_from(count).expect("a count of marks"))
}
