#!/usr/bin/env python3
"""The page of a benchmark's report in a browser: every chart is drawn with all its data, nothing is loaded from outside,
a phone shows it without scrolling sideways, and it can be read on a light and on a dark ground.

The reports in invented/ are invented sample data, one of each recipe; nobody measured them.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lib"))
from browser import Browser  # noqa: E402
from pgseal_test import PGSEAL, Case, main, run  # noqa: E402

INVENTED = Path(__file__).resolve().parent / "invented"
RECIPES = ["checksums", "cipher", "readonly", "tprocc", "upgrade", "worst"]
PHONE = 360
# WCAG 2, level AA: text, and what is drawn.
TEXT_CONTRAST = 4.5
DRAWN_CONTRAST = 3.0
SMALLEST_TEXT = 9

# What every chart shows. Lines of the grid and axes have two points; a whisker and an aim too, so only longer lines count.
CHARTS = """() => [...document.querySelectorAll('figure')].map(figure => {
    const svg = figure.querySelector('svg'), box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
    const marks = kind => [...svg.querySelectorAll(kind)];
    const inside = mark => {
        const box = mark.getBBox();
        return box.x >= -1 && box.y >= -1 && box.x + box.width <= view.width + 1 && box.y + box.height <= view.height + 1;
    };
    const curves = marks('polyline').filter(line => line.points.length > 2);
    const empty = mark => mark.getBBox().height === 0 && mark.getBBox().width === 0;
    return {
        title: figure.querySelector('figcaption').textContent,
        width: box.width, height: box.height,
        role: svg.getAttribute('role'), label: svg.getAttribute('aria-label'),
        description: svg.querySelector('desc').textContent,
        circles: marks('circle').length, rects: marks('rect').length, polygons: marks('polygon').length,
        curves: curves.length,
        empty: [...marks('circle,rect,polygon,text'), ...curves].filter(empty).map(mark => mark.outerHTML),
        outside: marks('*:not(title):not(desc)').filter(mark => !inside(mark)).map(mark => mark.outerHTML),
    };
})"""

# Colour, ground and kind of everything that can be read or seen, except the grid. A mark is on the page.
SEEN = """() => {
    const ground = element => {
        for (; element; element = element.parentElement) {
            const colour = getComputedStyle(element).backgroundColor;
            if (!/^rgba\\(.*, 0\\)$/.test(colour)) return colour;
        }
        return 'none';
    };
    const grid = document.createElement('i');
    grid.style.color = 'var(--grid)';
    document.body.append(grid);
    const faint = getComputedStyle(grid).color;
    grid.remove();
    const own = element => [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    const seen = [];
    for (const element of document.querySelectorAll('body *:not(title):not(desc)')) {
        const style = getComputedStyle(element), svg = element.ownerSVGElement;
        if (!svg && own(element)) seen.push(['text', style.color, ground(element)]);
        if (svg && element.tagName === 'text') seen.push(['text', style.fill, ground(svg)]);
        if (svg && element.tagName !== 'text') {
            for (const colour of [element.tagName === 'line' ? 'none' : style.fill, style.stroke]) {
                if (colour !== 'none' && colour !== faint) seen.push(['drawn', colour, ground(svg)]);
            }
        }
    }
    return seen;
}"""


def luminance(colour):
    """Of `rgb(1, 2, 3)`, by WCAG's definition."""
    linear = []
    for part in colour.removeprefix("rgb(").removesuffix(")").split(","):
        value = int(part) / 255
        linear.append(value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4)
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """Between 1 and 21."""
    light, dark = sorted([luminance(one), luminance(other)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


def groups(report):
    """The report's cases by group and metric, in order."""
    found = {}
    for case in report["cases"]:
        found.setdefault((case["group"], case["metric"]), []).append(case)
    return list(found.values())


def expected_marks(report):
    """What the charts of a report must hold, in the page's order: circles, bars, diamonds, lines of more than two points."""
    others = len(report["variants"]) - 1
    charts = []
    for cases in groups(report):
        measured = [case for case in cases if case["rounds"]]
        published = sum(len(case["published"]) for case in measured)
        if len({json.dumps(case["axis"]) for case in cases}) > 1:
            lines = max(len(case["published"]) for case in cases) if published else 0
            charts.append((len(cases) * (others + 1), 0, 0, others + 1))
            charts.append((len(cases) * others + published, 0, 0, others + lines))
        elif cases[0]["metric"] == "nanoseconds_per_page":
            charts.append((0, len(measured) * (others + 1), 0, 0))
        else:
            charts.append((0, len(measured) * others, published, 0))
            charts.append((0, len(measured) * others, 0, 0))
        for case in measured:
            samples = [sample for round in case["rounds"] for sample in round["samples"].values()]
            names = sorted({name for sample in samples for name in sample["curves"]})
            charts += [(0, 0, 0, sum(name in sample["curves"] for sample in samples)) for name in names]
    return charts


class Page(Case):
    def setUp(self):
        super().setUp()
        self.browser = Browser(self.directory / "profile")
        self.addCleanup(self.browser.close)

    def show(self, recipe):
        """Opens the page of an invented report and returns the report."""
        source, page = INVENTED / f"{recipe}.json", self.directory / f"{recipe}.html"
        run([PGSEAL, "bench", "report", source, "--html", page])
        self.browser.open(page.as_uri())
        return json.loads(source.read_text())

    def test_every_chart_is_drawn_with_all_its_data(self):
        self.assertEqual(sorted(path.stem for path in INVENTED.glob("*.json")), RECIPES)
        for recipe in RECIPES:
            report = self.show(recipe)
            charts = self.browser.evaluate(CHARTS)
            marks = [tuple(chart[kind] for kind in ["circles", "rects", "polygons", "curves"]) for chart in charts]
            self.assertEqual(marks, expected_marks(report), recipe)
            for chart in charts:
                with self.subTest(recipe, chart=chart["title"]):
                    self.assertGreater(chart["width"], 300)
                    self.assertGreater(chart["height"], 30)
                    self.assertEqual((chart["empty"], chart["outside"]), ([], []))
                    self.assertEqual(chart["role"], "img")
                    self.assertEqual(chart["label"], chart["description"])
                    self.assertRegex(chart["label"], r"^(Lines|Bars)\b.{20,}\.$")

    def test_nothing_is_loaded_and_nothing_runs(self):
        for recipe in RECIPES:
            self.show(recipe)
            self.assertEqual(self.browser.requested(), [(self.directory / f"{recipe}.html").as_uri()])
            self.assertEqual(self.browser.complaints(), [])
            self.assertEqual(self.browser.evaluate("() => document.scripts.length"), 0)

    def test_a_request_would_be_seen_and_the_policy_keeps_it_out(self):
        outside = (self.directory / "outside.png").as_uri()
        plain = self.directory / "plain.html"
        plain.write_text(f"<!doctype html><img src='{outside}'>")
        self.browser.open(plain.as_uri())
        self.assertEqual(self.browser.requested(), [plain.as_uri(), outside])

        self.show("upgrade")
        self.browser.complaints()  # of the missing picture
        add = "source => { const image = new Image(); image.src = source; document.body.append(image); }"
        self.browser.evaluate(add, outside)
        self.assertIn("violates the following Content Security Policy directive", "".join(self.browser.complaints()))

    def test_names_are_text(self):
        self.show("readonly")
        found = self.browser.evaluate("""() => {
            const all = kind => [...document.querySelectorAll(kind)];
            const holding = (kind, text) => all(kind).filter(each => each.textContent.includes(text)).length;
            return [all('b,script').length, holding('td', 'other|<b>TDE</b>'), holding('dd', '<script>alert(1)</script>')];
        }""")
        self.assertEqual(found, [0, 4, 1])

    def test_a_phone_scrolls_tables_and_not_the_page(self):
        self.browser.width(PHONE, mobile=True)
        for recipe in RECIPES:
            self.show(recipe)
            wide, boxes, text = self.browser.evaluate("""() => [
                document.documentElement.scrollWidth,
                [...document.querySelectorAll('.scroll')].map(box => [box.clientWidth, box.scrollWidth]),
                Math.min(...[...document.querySelectorAll('svg text')].map(text =>
                    parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))]""")
            self.assertEqual(wide, PHONE, recipe)
            self.assertTrue(all(client <= PHONE for client, _ in boxes), boxes)
            self.assertTrue(any(scrolled > client for client, scrolled in boxes), boxes)
            self.assertGreater(text, SMALLEST_TEXT)

    def test_everything_stands_out_from_a_light_and_a_dark_ground(self):
        grounds = {}
        for scheme in ["light", "dark"]:
            self.browser.prefer(scheme)
            for recipe in RECIPES:
                self.show(recipe)
                seen = {tuple(each) for each in self.browser.evaluate(SEEN)}
                self.assertEqual({kind for kind, _, _ in seen}, {"text", "drawn"})
                least = {"text": TEXT_CONTRAST, "drawn": DRAWN_CONTRAST}
                faint = [each for each in sorted(seen) if contrast(each[1], each[2]) < least[each[0]]]
                self.assertEqual(faint, [], (recipe, scheme))
                grounds.setdefault(scheme, set()).update(ground for kind, _, ground in seen if kind == "drawn")
        self.assertEqual({scheme: len(found) for scheme, found in grounds.items()}, {"light": 1, "dark": 1})
        light, dark = (luminance(*grounds[scheme]) for scheme in ["light", "dark"])
        self.assertGreater(light, 0.8)
        self.assertLess(dark, 0.05)


if __name__ == "__main__":
    main(__file__)
