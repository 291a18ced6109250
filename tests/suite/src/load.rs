//! The load of the machine, as a reader of a failure wants to know it.

/// The average number of runnable processes over the last minute, as Linux counts it; `-` where it cannot be read.
pub fn now() -> String {
    std::fs::read_to_string("/proc/loadavg").ok().and_then(|text| first_word(&text)).unwrap_or_else(|| "-".to_owned())
}

fn first_word(text: &str) -> Option<String> {
    text.split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_is_the_last_minute() {
        assert_eq!(first_word("2.50 1.75 0.75 3/321 4711\n").as_deref(), Some("2.50"));
        assert_eq!(first_word(""), None);
    }
}
