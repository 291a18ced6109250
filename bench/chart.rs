//! A line chart with logarithmic axes, as SVG, without a plotting library and its fonts.

use std::fmt::Write as _;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 460.0;
/// The margins for the labels, in pixels: left, right, top, bottom.
const MARGIN: [f64; 4] = [80.0, 230.0, 50.0, 55.0];
/// The colours of the lines, which are distinguishable with colour-vision deficiency (Okabe and Ito).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// A chart with a line for each series; points at or below zero cannot be shown on a logarithmic axis.
pub struct Chart {
    pub title: String,
    /// The label of the horizontal axis.
    pub x: &'static str,
    /// The label of the vertical axis.
    pub y: &'static str,
    /// The name and the points of each line.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

impl Chart {
    /// Draws the chart; `None` without any point.
    pub fn svg(&self) -> Option<String> {
        let points = || self.lines.iter().flat_map(|(_, points)| shown(points));
        let across = Axis::over(points().map(|(x, _)| x), MARGIN[0], WIDTH - MARGIN[1])?;
        let up = Axis::over(points().map(|(_, y)| y), HEIGHT - MARGIN[3], MARGIN[2])?;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        let left = MARGIN[0];
        let right = WIDTH - MARGIN[1];
        let top = MARGIN[2];
        let bottom = HEIGHT - MARGIN[3];
        let mut text = |x: f64, y: f64, anchor: &str, more: &str, words: &str| {
            let words = words.replace('&', "&amp;").replace('<', "&lt;");
            // Writing to a String cannot fail.
            let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {more}>{words}</text>");
        };
        text(left, 24.0, "start", "font-size=\"15\" font-weight=\"bold\"", &self.title);
        text((left + right) / 2.0, HEIGHT - 12.0, "middle", "", self.x);
        text(left, top - 10.0, "start", "", self.y);
        for (n, (name, _)) in self.lines.iter().enumerate() {
            let colour = format!("fill=\"{}\" font-weight=\"bold\"", COLOURS[n % COLOURS.len()]);
            text(right + 14.0, top + 14.0 + 18.0 * n as f64, "start", &colour, name);
        }
        for tick in across.ticks() {
            text(across.place(tick), bottom + 18.0, "middle", "", &short(tick));
        }
        for tick in up.ticks() {
            text(left - 8.0, up.place(tick) + 4.0, "end", "", &short(tick));
        }
        let mut rule = |x1: f64, y1: f64, x2: f64, y2: f64| {
            let _ =
                writeln!(svg, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#ddd\"/>");
        };
        across.ticks().for_each(|tick| rule(across.place(tick), top, across.place(tick), bottom));
        up.ticks().for_each(|tick| rule(left, up.place(tick), right, up.place(tick)));
        for (n, (_, points)) in self.lines.iter().enumerate() {
            let colour = COLOURS[n % COLOURS.len()];
            let places: Vec<_> = shown(points).map(|(x, y)| (across.place(x), up.place(y))).collect();
            let path: Vec<String> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let path = path.join(" ");
            let _ =
                writeln!(svg, "<polyline points=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.5\"/>");
            for (x, y) in places {
                let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>");
            }
        }
        svg.push_str("</svg>\n");
        Some(svg)
    }
}

fn shown(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    points.iter().copied().filter(|&(x, y)| x > 0.0 && y > 0.0)
}

/// A logarithmic axis of whole decades.
struct Axis {
    from: i32,
    to: i32,
    start: f64,
    end: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, start: f64, end: f64) -> Option<Axis> {
        let (low, high) = values.fold((f64::MAX, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
        let from = (high > 0.0).then(|| low.log10().floor() as i32)?;
        Some(Axis { from, to: (high.log10().ceil() as i32).max(from + 1), start, end })
    }

    fn place(&self, value: f64) -> f64 {
        let share = (value.log10() - f64::from(self.from)) / f64::from(self.to - self.from);
        self.start + share * (self.end - self.start)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        (self.from..=self.to).map(|power| 10f64.powi(power))
    }
}

fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{}M", v / 1e6),
        v if v >= 1e3 => format!("{}k", v / 1e3),
        v => format!("{v}"),
    }
}
