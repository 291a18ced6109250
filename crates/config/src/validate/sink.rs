//! Named sinks, with the destination keys on them.

use std::sync::Arc;

use crate::sink_kinds::KINDS;
use crate::tables::{SinkKeys, sinks as table, top};
use delaybridge_settings::Settings;
use delaybridge_settings::keys::nearest;
use delaybridge_settings::problem::{Report, Spot};
use delaybridge_settings::reader::{Scalar, Section, clip};
use delaybridge_sink::{ReadTarget, SinkKind, SinkSettings, SinkSpec};

/// A sink and its place.
pub(super) struct SinkDraft<'a> {
    pub(super) name: String,
    pub(super) spot: Spot,
    pub(super) report: &'a Report,
    /// `None` when its kind is not known; the problem is reported.
    pub(super) known: Option<KnownSink>,
}

/// A sink of a known kind.
pub(super) struct KnownSink {
    pub(super) kind: &'static SinkKind,
    pub(super) spec: Arc<SinkSpec>,
    /// The place of the time-out, if the user left it to the leases.
    pub(super) auto_timeout: Option<Spot>,
    /// Reads a route's destination in it.
    pub(super) target: ReadTarget,
}

impl SinkDraft<'_> {
    /// Returns the settings, if its kind is known.
    pub(super) fn spec(&self) -> Option<&SinkSpec> {
        self.known.as_ref().map(|known| &*known.spec)
    }
}

/// Finds the sink of this name, and reports if there is none.
pub(super) fn find<'a, 's>(
    section: &Section<'_>,
    sinks: &'a [SinkDraft<'s>],
    name: &Scalar,
) -> Option<&'a SinkDraft<'s>> {
    let found = sinks.iter().find(|sink| sink.name == name.value);
    if found.is_none() {
        let names = || sinks.iter().map(|sink| sink.name.as_str());
        let help = match nearest(&name.value, names()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if sinks.is_empty() => "write it under `sinks:`".to_owned(),
            None => format!("sinks are: {}", names().collect::<Vec<_>>().join(", ")),
        };
        section.cx.report.problem(&name.spot, format!("there is no sink `{}`", clip(&name.written)), help);
    }
    found
}

/// Returns all sinks, in the order of the file.
pub(super) fn sinks<'a>(top: &Section<'a>) -> Vec<SinkDraft<'a>> {
    top.named(&top::SINKS).into_iter().map(|(name, section)| one(name, &section)).collect()
}

fn one<'a>(name: String, section: &Section<'a>) -> SinkDraft<'a> {
    let spot = section.spot.clone();
    let report = &section.cx.report;
    let SinkKeys { written } = SinkKeys::of(section);
    if written.len() > 1 {
        let message = format!("a sink has one kind, and this one has {}", written.len());
        report.problem(&spot, message, format!("keep one of: {}", written.join(", ")));
    }
    if written.is_empty() && section.empty {
        let kinds: Vec<_> = table::TABLE.keys().map(|key| format!("`{}:`", key.name)).collect();
        report.problem(&spot, "the sink has no kind", format!("write one of: {}", kinds.join(", ")));
    }
    // All are read, so that the problems of all are reported.
    let read = |kind: &&'static SinkKind| match kind.read {
        Ok(read) => section.opt_section(&kind.key).map(|section| (*kind, read(&section))),
        Err(feature) => {
            not_built(section, kind, feature);
            None
        }
    };
    let kinds: Vec<_> = KINDS.iter().filter_map(read).collect();
    let known = kinds.into_iter().next().map(|(kind, settings)| {
        let SinkSettings { connector, timeout, timeout_spot, max_rate, target } = settings;
        let auto_timeout = timeout.is_none().then_some(timeout_spot);
        let spec = SinkSpec { name: name.as_str().into(), connector, timeout: timeout.unwrap_or_default(), max_rate };
        KnownSink { kind, spec: Arc::new(spec), auto_timeout, target }
    });
    SinkDraft { name, spot, report, known }
}

/// Reports a kind whose client was left out of the binary.
fn not_built(section: &Section<'_>, kind: &SinkKind, feature: &str) {
    if section.has(&kind.key) {
        let message = format!("this binary was built without {}", kind.title);
        let help = format!("use one that was built with the feature `{feature}`, which is on by default");
        section.cx.report.problem(&section.spot(&kind.key), message, help);
    }
}
