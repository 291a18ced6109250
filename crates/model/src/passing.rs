//! The headers that a message of an input brings to its destination: those that the destination can have and the route wants. Pure.

use std::collections::HashSet;

use bytes::Bytes;

use super::message::RouteMessage;
use super::role::matches;
use delaybridge_core::carried::Carried;
use delaybridge_sink::header_rules::EACH;
use delaybridge_sink::{HeaderFate, HeaderRules};

/// The rule of a route about headers of messages: patterns in lower case, in which `*` stands for any text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderFilter {
    /// The names that pass; `None`: all.
    pub keep: Option<Vec<String>>,
    /// The names that do not pass.
    pub drop: Vec<String>,
}

impl HeaderFilter {
    /// Returns whether a header passes, in any spelling of its name. `spelled`: the name as the destination may read
    /// it.
    pub fn wants(&self, name: &str, spelled: &str) -> bool {
        let names = [name.to_ascii_lowercase(), spelled.to_ascii_lowercase()];
        let fits = |patterns: &[String]| patterns.iter().any(|one| names.iter().any(|name| matches(one, name)));
        self.keep.as_deref().is_none_or(fits) && !fits(&self.drop)
    }
}

/// The number of headers of a message that do not pass, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Headers that steer the destination, or have a name that the sink sets itself.
    pub control: u64,
    /// Headers that the destination cannot carry.
    pub unfit: u64,
    /// Headers that the route does not want.
    pub rule: u64,
}

/// The reason why a header does not pass.
#[derive(Debug, Clone, Copy)]
enum Reason {
    Control,
    Unfit,
    Rule,
}

impl LeftOut {
    fn add(&mut self, reason: Reason) {
        match reason {
            Reason::Control => self.control += 1,
            Reason::Unfit => self.unfit += 1,
            Reason::Rule => self.rule += 1,
        }
    }
}

/// The rules about the headers of a message: those of its destination, sink and route.
pub(super) struct Passage<'a> {
    /// The row of the destination in the table of headers.
    pub(super) rules: &'static HeaderRules,
    /// Whether the settings of the sink have a header of this name.
    pub(super) is_of_sink: &'a dyn Fn(&str) -> bool,
    /// The rule of the route.
    pub(super) filter: Option<&'a HeaderFilter>,
    /// Whether the message becomes an event of CloudEvents, with attributes of its own.
    pub(super) is_event: bool,
}

impl Passage<'_> {
    /// Adds the headers that pass to the message, behind those of the route. Returns the headers that are no text if not all of them
    /// pass, and how many of all do not.
    pub(super) fn add(&self, carried: &Carried, message: &mut RouteMessage) -> (Option<Vec<(String, Bytes)>>, LeftOut) {
        let size = |name: &str, value: &str| name.len() + value.len() + EACH;
        let taken: usize = message.headers.iter().map(|(name, value)| size(name, value)).sum();
        let mut room = self.rules.room.saturating_sub(taken);
        // A message may have tens of thousands of headers.
        let spelled = |name: &str| self.rules.spelled(name).to_ascii_lowercase();
        let of_route: HashSet<String> = message.headers.iter().map(|(name, _)| spelled(name)).collect();
        let mut texts = HashSet::new();
        let mut passed = HashSet::new();
        let mut left_out = LeftOut::default();
        for (name, value) in &carried.headers {
            let known = spelled(name);
            // The route says something else.
            if of_route.contains(&known) {
                continue;
            }
            let is_repeated = !self.rules.repeats && passed.contains(&known);
            match self.reason(name, Some(value)) {
                Some(reason) => left_out.add(reason),
                None if is_repeated || size(name, value) > room => left_out.add(Reason::Unfit),
                None => {
                    room -= size(name, value);
                    message.headers.push((name.as_str().into(), value.clone()));
                    passed.insert(known.clone());
                }
            }
            texts.insert(known);
        }
        let mut passes = |name: &str| {
            let known = spelled(name);
            // The route says something else, in whatever spelling. One that has a text too passes with it.
            if of_route.contains(&known) || texts.contains(&known) {
                return !of_route.contains(&known) && passed.contains(&known);
            }
            match self.reason(name, None) {
                Some(reason) => left_out.add(reason),
                None => return true,
            }
            false
        };
        let others: Vec<_> = carried.others.iter().filter(|(name, _)| passes(name)).cloned().collect();
        ((others.len() != carried.others.len()).then_some(others), left_out)
    }

    /// Returns the reason why a header does not pass; a value of `None` is no text.
    fn reason(&self, name: &str, value: Option<&str>) -> Option<Reason> {
        if self.filter.is_some_and(|filter| !filter.wants(name, &self.rules.spelled(name))) {
            return Some(Reason::Rule);
        }
        if (self.is_of_sink)(name) || (self.is_event && is_attribute(name)) {
            return Some(Reason::Control);
        }
        match self.rules.fate(name, value) {
            HeaderFate::Passes => None,
            HeaderFate::Control => Some(Reason::Control),
            HeaderFate::Unfit => Some(Reason::Unfit),
        }
    }
}

/// Returns whether a header is an attribute of CloudEvents in the binding of any protocol. Beside the attributes of
/// another event it would be a part of that one.
fn is_attribute(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["ce_", "ce-", "cloudevents:", "cloudevents_"].iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests;
