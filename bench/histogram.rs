//! Quantiles from a histogram of the daemon, with linear interpolation within a bucket.

use delaybridge_telemetry::catalogue::CATALOGUE;

use harness::metrics::Metrics;

pub struct Histogram {
    bounds: Vec<f64>,
    below: Vec<f64>,
    count: f64,
}

impl Histogram {
    /// The sum of all series that match a selector: a name, with or without labels.
    pub fn of(metrics: &Metrics, selector: &str) -> Self {
        let (name, labels) = selector.split_once('{').unwrap_or((selector, ""));
        let labels = labels.trim_end_matches('}');
        let metric = CATALOGUE.iter().find(|metric| metric.name == name);
        let bounds = metric.map(|metric| metric.buckets.to_vec()).unwrap_or_default();
        let comma = if labels.is_empty() { "" } else { "," };
        let below = |bound: &f64| metrics.sum(&format!("{name}_bucket{{{labels}{comma}le=\"{bound}\"}}"));
        Histogram {
            below: bounds.iter().map(below).collect(),
            bounds,
            count: metrics.sum(&format!("{name}_count{{{labels}}}")),
        }
    }

    /// The quantile in milliseconds; `None` if it is beyond the last bucket.
    pub fn at_most_ms(&self, share: f64) -> Option<f64> {
        let rank = share * self.count;
        let place = self.below.iter().position(|below| *below >= rank)?;
        let (low, under) = if place == 0 { (0.0, 0.0) } else { (self.bounds[place - 1], self.below[place - 1]) };
        let share = (rank - under) / (self.below[place] - under).max(1.0);
        Some((low + (self.bounds[place] - low) * share) * 1e3)
    }

    /// These quantiles, for the table; 1.0 is an upper bound of the maximum.
    pub fn show(&self, shares: &[f64]) -> String {
        let show = |share: &f64| {
            let ms = self.at_most_ms(*share).map_or("beyond the buckets".to_owned(), |ms| format!("{ms:.1} ms"));
            if *share < 1.0 { format!("p{} {ms}", share * 100.0) } else { format!("max <= {ms}") }
        };
        shares.iter().map(show).collect::<Vec<_>>().join(", ")
    }
}
