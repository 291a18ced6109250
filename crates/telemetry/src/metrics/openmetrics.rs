//! The text format of OpenMetrics, version 1.0. The library writes that of Prometheus alone.

use std::borrow::Cow;
use std::fmt::Write as _;

use prometheus::proto::{LabelPair, MetricFamily, MetricType};

/// The media type of what [`encode`] writes.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The end of the name of a counter, which its family does not have.
const TOTAL: &str = "_total";

/// Writes these families.
pub(super) fn encode(families: &[MetricFamily]) -> String {
    let mut text = String::new();
    for family in families {
        // Writing to a String cannot fail.
        let _ = write_family(&mut text, family);
    }
    // Without it a reader takes the text for one that was cut off.
    text.push_str("# EOF\n");
    text
}

fn write_family(text: &mut String, family: &MetricFamily) -> std::fmt::Result {
    let name = family.name();
    let (name, kind) = match family.get_field_type() {
        MetricType::COUNTER => (name.strip_suffix(TOTAL).unwrap_or(name), "counter"),
        MetricType::GAUGE => (name, "gauge"),
        MetricType::HISTOGRAM => (name, "histogram"),
        MetricType::SUMMARY => (name, "summary"),
        MetricType::UNTYPED => (name, "unknown"),
    };
    writeln!(text, "# TYPE {name} {kind}\n# HELP {name} {}", escaped(family.help()))?;
    for metric in family.get_metric() {
        let labels = metric.get_label();
        match family.get_field_type() {
            MetricType::COUNTER => sample(text, (name, TOTAL), labels, None, metric.get_counter().get_value())?,
            MetricType::GAUGE => sample(text, (name, ""), labels, None, metric.get_gauge().get_value())?,
            MetricType::HISTOGRAM => {
                let histogram = metric.get_histogram();
                let count = histogram.get_sample_count();
                let buckets = histogram.get_bucket().iter().map(|b| (b.upper_bound(), b.cumulative_count()));
                for (bound, up_to) in buckets.filter(|(bound, _)| bound.is_finite()).chain([(f64::INFINITY, count)]) {
                    sample(text, (name, "_bucket"), labels, Some(bound), up_to as f64)?;
                }
                sample(text, (name, "_count"), labels, None, count as f64)?;
                sample(text, (name, "_sum"), labels, None, histogram.get_sample_sum())?;
            }
            // The daemon has none.
            MetricType::SUMMARY | MetricType::UNTYPED => {}
        }
    }
    Ok(())
}

/// Writes a line; the upper bound of a bucket is one more label.
fn sample(
    text: &mut String,
    (name, end): (&str, &str),
    labels: &[LabelPair],
    bound: Option<f64>,
    value: f64,
) -> std::fmt::Result {
    write!(text, "{name}{end}")?;
    let mut separator = '{';
    for label in labels {
        write!(text, "{separator}{}=\"{}\"", label.name(), escaped(label.value()))?;
        separator = ',';
    }
    if let Some(bound) = bound {
        write!(text, "{separator}le=\"{}\"", number(bound))?;
        separator = ',';
    }
    writeln!(text, "{} {}", if separator == ',' { "}" } else { "" }, number(value))
}

/// Returns a number as Go writes it: `1.0`, `0.001`, `+Inf`.
fn number(value: f64) -> String {
    if value.is_infinite() { (if value > 0.0 { "+Inf" } else { "-Inf" }).to_owned() } else { format!("{value:?}") }
}

/// Escapes a label. Almost none has anything to escape, and a scrape may have a hundred thousand of them.
fn escaped(text: &str) -> Cow<'_, str> {
    if text.contains(['\\', '\n', '"']) {
        text.replace('\\', r"\\").replace('\n', r"\n").replace('"', r#"\""#).into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

    use super::*;

    #[test]
    fn each_kind_has_its_lines() {
        let registry = Registry::new();
        let counter = IntCounterVec::new(Opts::new("a_total", "Says \"a\".\nTwice."), &["queue"]).unwrap();
        let gauge = GaugeVec::new(Opts::new("b_seconds", "B."), &[]).unwrap();
        let buckets = HistogramOpts::new("c_seconds", "C.").buckets(vec![0.005, 5.0]);
        let histogram = HistogramVec::new(buckets, &["sink"]).unwrap();
        registry.register(Box::new(counter.clone())).unwrap();
        registry.register(Box::new(gauge.clone())).unwrap();
        registry.register(Box::new(histogram.clone())).unwrap();
        counter.with_label_values(&["x\\y"]).inc_by(3);
        gauge.with_label_values::<&str>(&[]).set(-0.5);
        histogram.with_label_values(&["s"]).observe(1.0);
        histogram.with_label_values(&["s"]).observe(9.0);
        let expected = r##"# TYPE a counter
# HELP a Says \"a\".\nTwice.
a_total{queue="x\\y"} 3.0
# TYPE b_seconds gauge
# HELP b_seconds B.
b_seconds -0.5
# TYPE c_seconds histogram
# HELP c_seconds C.
c_seconds_bucket{sink="s",le="0.005"} 0.0
c_seconds_bucket{sink="s",le="5.0"} 1.0
c_seconds_bucket{sink="s",le="+Inf"} 2.0
c_seconds_count{sink="s"} 2.0
c_seconds_sum{sink="s"} 10.0
# EOF
"##;
        assert_eq!(encode(&registry.gather()), expected);
    }

    #[test]
    fn numbers_are_those_that_readers_know() {
        for (value, text) in [
            (0.0, "0.0"),
            (1e-4, "0.0001"),
            (1_700_000_000.25, "1700000000.25"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(number(value), text);
        }
    }
}
