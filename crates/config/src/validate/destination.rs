//! The place in a sink: the destination keys under `to:` and `dead_letter:`, read by the sink's kind.

use std::sync::Arc;

use redisson_codecs::{Coding, Reads};

use super::sink::SinkDraft;
use crate::sink_kinds::KINDS;
use delaybridge_core::template::Template;
use delaybridge_settings::keys::Key;
use delaybridge_settings::problem::Spot;
use delaybridge_settings::reader::Section;
use delaybridge_sink::{RouteSite, SinkKind, Target};

/// The section of a destination, with what its keys depend on.
pub(super) struct DestinationDraft<'a, 's> {
    pub(super) section: &'a Section<'s>,
    pub(super) codec: Coding,
    /// The hash tag of the queue's keys; empty when the queue has no name.
    pub(super) slot: &'a str,
    /// The key of an order by key, where the queue has one of its own.
    pub(super) order_key: Option<&'a Template>,
    /// Whether it is the queue's only destination.
    pub(super) alone: bool,
    /// The messages that go there.
    pub(super) of: Goods,
}

/// The messages that go to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goods {
    Elements,
    /// Elements that came by an input.
    Carried,
    DeadLetters,
    /// The records of an audit trail.
    Records,
}

impl Goods {
    /// Returns whether no payload of an element belongs to the message.
    fn is_without_payload(self) -> bool {
        matches!(self, Goods::DeadLetters | Goods::Records)
    }
}

impl DestinationDraft<'_, '_> {
    /// Returns the destination that these keys and those of the sink make, and where it is written. `None` after a
    /// problem.
    pub(super) fn read(&self, sink: &SinkDraft<'_>, sink_spot: &Spot) -> Option<(Arc<dyn Target>, Spot)> {
        let Some(known) = &sink.known else {
            self.pass_over();
            return None;
        };
        self.refuse_others(known.kind.key.name);
        let fits = |template: &Template, spot: &Spot| self.fits(template, spot);
        let DestinationDraft { section, slot, order_key, alone, of, .. } = *self;
        let sink = &*sink.name;
        let fits = &fits;
        let dead = of.is_without_payload();
        let carried = of == Goods::Carried;
        (known.target)(&RouteSite { section, sink, sink_spot, fits, slot, order_key, alone, dead, carried })
    }

    /// Skips the destination keys after an unknown sink, which has been reported.
    pub(super) fn pass_over(&self) {
        for (_, key) in self.keys() {
            self.section.has(key);
        }
    }

    /// Returns the destination keys of every kind.
    fn keys(&self) -> impl Iterator<Item = (&'static SinkKind, &'static Key)> {
        let dead = self.of.is_without_payload();
        let keys = move |kind: &'static SinkKind| if dead { kind.dead_letter } else { kind.to };
        KINDS.iter().flat_map(move |kind| keys(kind).iter().map(|key| (*kind, key)))
    }

    /// Reports destination keys of other kinds. A name may be a key of several.
    fn refuse_others(&self, own: &str) {
        let mut known: Vec<&str> =
            self.keys().filter(|(kind, _)| kind.key.name == own).map(|(_, key)| key.name).collect();
        for (_, key) in self.keys() {
            if known.contains(&key.name) {
                continue;
            }
            known.push(key.name);
            if self.section.has(key) {
                let kinds = self.keys().filter(|(_, other)| other.name == key.name).map(|(kind, _)| kind.key.name);
                let message = format!("`{}` means nothing to a sink of kind {own}", key.name);
                let help = format!("remove it, or name a sink of kind {}", kinds.collect::<Vec<_>>().join(" or "));
                self.section.cx.report.problem(&self.section.spot(key), message, help);
            }
        }
    }

    /// Refuses a template on the payload that the codec cannot answer: every element would be a dead letter, or get the
    /// default.
    pub(super) fn fits(&self, template: &Template, spot: &Spot) {
        if self.of.is_without_payload() {
            return self.fits_without_payload(template, spot);
        }
        self.fits_codec("template", (template.reads_payload(), template.uses_payload_path()), spot);
    }

    /// Refuses what asks for the payload, or for a field of it, where the codec reads none.
    pub(super) fn fits_codec(&self, what: &str, (payload, field): (bool, bool), spot: &Spot) {
        let message = match self.codec.reads() {
            Reads::Nothing if payload => {
                format!("the {what} asks for the payload, and codec {} does not look into it", self.codec)
            }
            Reads::Scalars if field => {
                format!("the {what} asks for a field of the payload, and codec {} reads no fields", self.codec)
            }
            Reads::Nothing | Reads::Scalars | Reads::Structures => return,
        };
        let help = if field {
            "write the codec of your producers, as `codec: json`"
        } else {
            "write the codec of your producers, as `codec: string` or `codec: json`"
        };
        self.section.cx.report.problem(spot, message, help);
    }

    /// Refuses a template that not every dead letter or record can fill: the payload may be undecodable, and that must not prevent
    /// its forwarding.
    fn fits_without_payload(&self, template: &Template, spot: &Spot) {
        if template.needs_due() {
            let message = "the template asks for the due time, which elements of the ready list lack";
            self.section.cx.report.problem(spot, message, "write a default, as in `${due_ms:-0}`");
        }
        if template.uses_payload() {
            let (message, under) = match self.of {
                Goods::Records => ("the template asks for the payload, and a record has none", "audit"),
                _ => ("the template asks for the payload, and that of a dead letter may be unreadable", "dead_letter"),
            };
            let key = spot.path.rsplit('.').next().unwrap_or_default();
            let help = format!("write a `{key}` under `{under}:` with id, queue, due_ms or attempt at most");
            self.section.cx.report.problem(spot, message, help);
        }
    }
}
