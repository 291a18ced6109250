//! The way back to the list of queues that a person came from, with its name filter, order and page.
//!
//! It is carried in the address, so that it works without a script and in a second window.

use maud::{Markup, html};

use super::layout::encoded;
use delaybridge_http_server::call::Query;
use delaybridge_ops::operations::ListQueues;
use delaybridge_ops::queue_order::{QueueFilter, QueueOrder};

/// The parameter of a page below the list.
pub const LIST: &str = "list";
const PARAMETERS: [&str; 5] = ["like", "sort", "show", "after", "limit"];

/// The list of queues from which a page was reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListPlace(String);

impl ListPlace {
    /// Returns the place of a page of the list; empty for the one that everybody sees first.
    pub fn of(which: &ListQueues, limit: Option<&str>) -> ListPlace {
        let known = [
            ("like", Some(which.like.as_str()).filter(|like| !like.is_empty())),
            ("sort", (which.sort != QueueOrder::Trouble).then(|| which.sort.as_str())),
            ("show", (which.show != QueueFilter::default()).then(|| which.show.as_str())),
            ("after", which.after.as_deref()),
            ("limit", limit),
        ];
        ListPlace::joined(known.into_iter())
    }

    /// Returns the place that a query or a form carries. Only what a list has is taken from it.
    pub fn carried(query: &Query) -> ListPlace {
        let Some(Ok(list)) = query.text(LIST).map(Query::parse) else { return ListPlace::default() };
        ListPlace::joined(PARAMETERS.into_iter().map(|name| (name, list.text(name))))
    }

    fn joined<'a>(pairs: impl Iterator<Item = (&'static str, Option<&'a str>)>) -> ListPlace {
        let pairs = pairs.filter_map(|(name, value)| Some(format!("{name}={}", encoded(value?))));
        ListPlace(pairs.collect::<Vec<_>>().join("&"))
    }

    /// Returns the address of the list. `up` leads to the first page.
    pub fn address(&self, up: &str) -> String {
        if self.0.is_empty() { up.to_owned() } else { format!("{up}?{}", self.0) }
    }

    /// Returns the part that the address of a page below gets, behind `?` or `&`; empty without a place.
    pub fn behind(&self, mark: char) -> String {
        if self.0.is_empty() { String::new() } else { format!("{mark}{LIST}={}", encoded(&self.0)) }
    }

    /// Returns the hidden field of a form; nothing without a place.
    pub fn field(&self) -> Markup {
        html! { @if !self.0.is_empty() { input type="hidden" name=(LIST) value=(self.0); } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_carried_and_nothing_else_is() {
        fn check(query: &str, expected: &str) {
            let place = ListPlace::carried(&Query::parse(query).unwrap());
            assert_eq!(place.address("../"), expected, "{query}");
            let behind = place.behind('?');
            let again = ListPlace::carried(&Query::parse(behind.trim_start_matches('?')).unwrap());
            assert_eq!(again, place, "{query}");
        }
        check("", "../");
        check("list=", "../");
        check("list=like%3Da%2520b%26sort%3Ddue", "../?like=a%20b&sort=due");
        check("list=%2F%2Fevil.example", "../");
        check("list=like%3D%2522%253E%26to%3Dx", "../?like=%22%3E");
    }
}
