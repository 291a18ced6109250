//! Links from the pages of queues and sinks to a dashboard.

use delaybridge_settings::Settings;
use delaybridge_settings::keys::Key;
use delaybridge_settings::reader::Section;

/// Links from the page of a queue or sink to Grafana, or any other page.
#[derive(Debug, Clone, Default, PartialEq, Eq, Settings)]
#[settings(grafana, at = "http.admin.grafana")]
pub struct GrafanaLinks {
    /// URL for a queue, with `{queue}` for its name: `https://grafana.example/d/delaybridge?var-queue={queue}`.
    #[key(Kind::Text, read = link)]
    pub queue: Option<String>,
    /// URL for a sink, with `{sink}` for its name.
    #[key(Kind::Text, read = link)]
    pub sink: Option<String>,
}

fn link(section: &Section<'_>, key: &Key) -> Option<String> {
    let text = section.text(key)?;
    let hole = format!("{{{}}}", key.name);
    let spot = &text.spot;
    // A browser would run a `javascript:` link.
    if !["https://", "http://"].iter().any(|scheme| text.value.starts_with(scheme)) {
        section.cx.report.problem(spot, "the URL begins with neither `https://` nor `http://`", key.help);
    }
    if !text.value.contains(&hole) {
        section.cx.report.problem(
            spot,
            format!("the URL has no `{hole}`, so that all would lead to the same page"),
            key.help,
        );
    }
    Some(text.value)
}
