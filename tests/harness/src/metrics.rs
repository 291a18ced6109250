//! A parser of Prometheus text, and the selection of series as in PromQL.

use std::collections::BTreeMap;

/// A scrape.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    series: Vec<Series>,
}

#[derive(Debug, Clone, PartialEq)]
struct Series {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Metrics {
    /// Parses the text format; panics on an invalid line, which is a defect of the daemon.
    pub fn parse(text: &str) -> Self {
        let series = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| {
            let (selector, value) =
                line.rsplit_once(' ').unwrap_or_else(|| panic!("metrics line without value: {line}"));
            let (name, labels) = parse_selector(selector);
            let value = value.parse().unwrap_or_else(|_| panic!("metrics line with an odd value: {line}"));
            Series { name, labels, value }
        });
        Metrics { series: series.collect() }
    }

    /// The sum of all series that have the name and at least the labels of `selector`; 0 if there is none, because
    /// series are created at first use.
    pub fn sum(&self, selector: &str) -> f64 {
        // The zero of `sum()` is negative.
        self.matching(selector).fold(0.0, |sum, series| sum + series.value)
    }

    /// The numbers of elements that a daemon gave up after their leases: those with a verdict, and those dropped unsent.
    ///
    /// A verdict may be unknown where it was to be refused. A command that was under way when the daemon was stopped has
    /// run out of time when the daemon goes on, and its connection is replaced. Verdicts just sent on it get no answer,
    /// and when they are sent again their elements are gone, which the first sending may have done.
    pub fn given_up(&self) -> (f64, f64) {
        let sum = |name: &str| self.sum(&format!("delaybridge_{name}_total"));
        (sum("stale_acks") + sum("unknown_acks"), sum("stale_drops"))
    }

    /// Whether any series matches.
    pub fn has(&self, selector: &str) -> bool {
        self.matching(selector).next().is_some()
    }

    /// The names of all series, without duplicates.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.series.iter().map(|series| &series.name[..]).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn matching(&self, selector: &str) -> impl Iterator<Item = &Series> {
        let (name, labels) = parse_selector(selector);
        self.series.iter().filter(move |series| {
            series.name == name && labels.iter().all(|(key, value)| series.labels.get(key) == Some(value))
        })
    }
}

/// Parses `name` or `name{key="value",...}`; the daemon's label values contain no quotes.
fn parse_selector(selector: &str) -> (String, BTreeMap<String, String>) {
    let Some((name, labels)) = selector.split_once('{') else { return (selector.to_owned(), BTreeMap::new()) };
    let mut rest = labels.trim_end_matches('}');
    let mut found = BTreeMap::new();
    while let Some((key, after)) = rest.split_once("=\"") {
        let (value, after) = after.split_once('"').unwrap_or_else(|| panic!("open quote in {selector}"));
        found.insert(key.trim().to_owned(), value.to_owned());
        rest = after.trim_start_matches(',');
    }
    (name.to_owned(), found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_sums_what_has_its_labels() {
        let metrics = Metrics::parse(
            "# HELP a_total x\n# TYPE a_total counter\na_total{from=\"delayed\",queue=\"q\"} 3\n\
             a_total{from=\"ready\",queue=\"q\"} 4\na_total{from=\"ready\",queue=\"r, s\"} 5\nup 1\nb_bucket{le=\"+Inf\"} 2e3\n",
        );
        let check = |selector: &str, expected: f64| assert_eq!(metrics.sum(selector), expected, "{selector}");
        check("a_total", 12.0);
        check("a_total{queue=\"q\"}", 7.0);
        check("a_total{queue=\"q\",from=\"ready\"}", 4.0);
        check("a_total{queue=\"r, s\"}", 5.0);
        check("a_total{queue=\"none\"}", 0.0);
        check("up", 1.0);
        check("b_bucket{le=\"+Inf\"}", 2000.0);
        assert!(metrics.has("up") && !metrics.has("down"));
        assert_eq!(metrics.names(), ["a_total", "b_bucket", "up"]);
    }
}
