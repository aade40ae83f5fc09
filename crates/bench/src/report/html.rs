//! One page that holds all it shows: no script, nothing from outside, and a policy that says so.

use maud::{html, Markup, PreEscaped, DOCTYPE};

use super::charts::{self, Chart};
use super::tables::{self, Row, Table};
use super::{palette, plot, words, View};
use crate::model::Report;

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";
const STYLE: &str = include_str!("style.css");

/// The report as a page.
pub fn html(report: &Report) -> String {
    let view = View::of(report);
    let title = words::title(&report.recipe);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " - pgseal bench" }
                style { (PreEscaped(palette::css())) (PreEscaped(STYLE)) }
            }
            body {
                header { (heading(report, &title)) }
                main { (results(&view)) (method()) }
            }
        }
    };
    page.into_string()
}

fn heading(report: &Report, title: &str) -> Markup {
    html! {
        p.kicker { "pgseal bench" }
        h1 { (title) }
        @if let Some(why) = &report.ended_early {
            p.early role="note" {
                strong { "Ended early: " (why.trim_end_matches('.')) "." }
                " What was finished is below."
            }
        }
        dl {
            @for (name, value) in tables::facts(report) {
                dt { (name) }
                dd { (value) }
            }
        }
    }
}

fn results(view: &View) -> Markup {
    html! {
        @for group in &view.groups {
            @let numbers = tables::of_group(group);
            section {
                h2 { (numbers.title) }
                @let charts = charts::of_group(view, group);
                @if !charts.is_empty() {
                    div.charts { @for chart in &charts { (figure(chart)) } }
                }
                (table(&numbers))
            }
        }
        @for closing in [tables::cipher_share(view), tables::cipher_speed(view.report)] {
            @if !closing.rows.is_empty() {
                section {
                    h2 { (closing.title) }
                    (table(&closing))
                }
            }
        }
    }
}

/// The elements are plotters' own, which escapes text.
fn figure(chart: &Chart) -> Markup {
    let size = format!("0 0 {} {}", plot::WIDTH, chart.drawn.height);
    html! {
        figure {
            figcaption { (chart.title) }
            svg viewBox=(size) role="img" aria-label=(chart.description) {
                title { (chart.title) }
                desc { (chart.description) }
                (PreEscaped(&chart.drawn.elements))
            }
            ul.legend {
                @for (colour, name) in &chart.legend {
                    li { span.(colour.name()) {} (name) }
                }
            }
        }
    }
}

fn table(table: &Table) -> Markup {
    let class = |column: usize| table.columns[column].number.then_some("number");
    html! {
        div.scroll tabindex="0" role="region" aria-label=(table.title) {
            table {
                thead {
                    tr {
                        @for column in &table.columns {
                            th scope="col" class=[column.number.then_some("number")] {
                                (unbroken(&column.name))
                            }
                        }
                    }
                }
                tbody {
                    @for row in &table.rows {
                        tr.first[row.first] .published[row.published] {
                            @let shown = shown(row);
                            @for (column, cell) in row.cells[..shown].iter().enumerate() {
                                @let wide = (column + 1 == shown).then(|| row.cells.len() - column);
                                td class=[class(column)] colspan=[wide.filter(|wide| *wide > 1)] {
                                    (unbroken(cell))
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// How many cells: the last text of a published figure takes the room of the empty ones after it.
fn shown(row: &Row) -> usize {
    let last = row.cells.iter().rposition(|cell| !cell.is_empty());
    last.filter(|_| row.published)
        .map_or(row.cells.len(), |last| last + 1)
}

/// A number stays on the line of its sign.
fn unbroken(text: &str) -> String {
    text.replace(" %", "\u{a0}%")
}

fn method() -> Markup {
    html! {
        section.method {
            h2 { "How to read this" }
            p {
                "A round runs every variant once, in random order, and only runs of one round are \
                 compared. A loss is the median over the rounds of what a variant lost against \
                 stock; a negative loss is a gain. The brackets hold its 95 % interval, which goes \
                 from one of the measured values to another; where they are too few for that, \
                 the level that is reached is behind it. Rounds on one set of clusters \
                 count once."
            }
            p {
                "An interval that holds both \u{201c}no loss\u{201d} and the aim shows neither: \
                 the verdict is then that it is undecided. Figures of others come from other \
                 machines; compare their losses with ours, not their throughput."
            }
        }
    }
}
