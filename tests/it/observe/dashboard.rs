//! The dashboard in `deploy/grafana/`, and the table of its panels, written out of [`panels`](super::panels).

use std::fmt::Write as _;

use delaybridge::telemetry::catalogue::CATALOGUE;
use serde_json::{Value, json};

use super::panels::{Good, Look, Panel, Row, rows};
use super::{assert_current, read};

const DASHBOARD: &str = "deploy/grafana/delaybridge.json";
const TABLE: &str = "docs/dashboard.md";

/// Columns of Grafana's grid.
const COLUMNS: usize = 24;

/// All queries of the committed dashboard: row, panel, expression as Grafana keeps it.
pub fn queries() -> Vec<(String, String, String)> {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).expect("the dashboard is JSON");
    let (mut row, mut found) = (String::new(), Vec::new());
    for panel in dashboard["panels"].as_array().expect("panels") {
        let title = panel["title"].as_str().expect("a title").to_owned();
        if panel["type"] == "row" {
            row = title;
            continue;
        }
        for target in panel["targets"].as_array().expect("targets") {
            found.push((row.clone(), title.clone(), target["expr"].as_str().expect("a query").to_owned()));
        }
    }
    found
}

fn dashboard(rows: &[Row]) -> String {
    let (mut panels, mut y) = (Vec::new(), 0);
    for row in rows {
        let place = json!({ "x": 0, "y": y, "w": COLUMNS, "h": 1 });
        panels.push(json!({ "id": panels.len() + 1, "type": "row", "title": row.title, "collapsed": false,
                            "gridPos": place, "panels": [] }));
        y += 1;
        let (mut x, mut height) = (0, 0);
        for panel in &row.panels {
            let (w, h) = size(panel.look);
            if x + w > COLUMNS {
                (x, y) = (0, y + height);
            }
            let place = json!({ "x": x, "y": y, "w": w, "h": h });
            panels.push(drawn(panel, panels.len() + 1, &place));
            (x, height) = (x + w, h);
        }
        y += height;
    }
    let page = json!({
        "uid": "delaybridge",
        "title": "delaybridge",
        "description": "Written by a test from tests/it/observe/panels.rs and the metric catalogue; change it there.",
        "tags": ["delaybridge"],
        "schemaVersion": 36,
        "editable": true,
        // Two daemons on one queue show the same; a pointer over one panel shows the moment in all others.
        "graphTooltip": 1,
        "time": { "from": "now-3h", "to": "now" },
        "refresh": "30s",
        "links": [{
            "title": "What each alert means", "type": "link", "targetBlank": true, "icon": "doc",
            "url": "https://github.com/delaybridge/delaybridge/blob/main/docs/operations.md",
        }],
        "templating": { "list": [
            { "name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus" },
            variable("job", "label_values(delaybridge_build_info, job)"),
            variable("queue", "label_values(delaybridge_queue_messages{job=~\"$job\"}, queue)"),
            variable("sink", "label_values(delaybridge_sink_up{job=~\"$job\"}, sink)"),
        ] },
        "panels": panels,
    });
    format!("{page:#}\n")
}

fn variable(name: &str, query: &str) -> Value {
    json!({
        "name": name, "label": name, "type": "query", "datasource": source(), "query": query,
        "includeAll": true, "multi": true, "allValue": ".*", "current": { "text": "All", "value": "$__all" },
        // Queues and sinks come with a restart of a daemon: looked up whenever the range of time changes.
        "refresh": 2, "sort": 1,
    })
}

fn source() -> Value {
    json!({ "type": "prometheus", "uid": "${datasource}" })
}

fn size(look: Look) -> (usize, usize) {
    match look {
        Look::Number(_) => (4, 4),
        Look::Lines => (8, 8),
    }
}

fn drawn(panel: &Panel, id: usize, place: &Value) -> Value {
    let targets: Vec<Value> = panel
        .queries
        .iter()
        .zip('A'..)
        .map(|(query, letter)| {
            json!({ "refId": letter.to_string(), "datasource": source(), "expr": query.expr,
                    "legendFormat": query.legend, "range": panel.look == Look::Lines,
                    "instant": panel.look != Look::Lines })
        })
        .collect();
    let (kind, defaults, options) = match panel.look {
        Look::Number(good) => (
            "stat",
            json!({ "unit": panel.unit, "color": { "mode": "thresholds" },
                    "thresholds": { "mode": "absolute", "steps": steps(good) } }),
            json!({ "colorMode": "background", "graphMode": "none", "reduceOptions": { "calcs": ["lastNotNull"] } }),
        ),
        Look::Lines => (
            "timeseries",
            json!({ "unit": panel.unit,
                    "custom": { "axisSoftMin": 0, "fillOpacity": 10, "showPoints": "never" } }),
            json!({ "legend": { "displayMode": "list", "placement": "bottom" },
                    "tooltip": { "mode": "multi", "sort": "desc" } }),
        ),
    };
    json!({
        "id": id, "type": kind, "title": panel.title, "description": panel.description, "datasource": source(),
        "gridPos": place, "fieldConfig": { "defaults": defaults, "overrides": [] }, "options": options,
        "targets": targets,
    })
}

fn steps(good: Good) -> Value {
    let step = |color, from: Option<u32>| json!({ "color": color, "value": from });
    match good {
        Good::Zero => json!([step("green", None), step("red", Some(1))]),
        Good::UpTo(most) => json!([step("green", None), step("red", Some(most))]),
        Good::AtLeastOne => json!([step("red", None), step("green", Some(1))]),
    }
}

/// The panels for those who look at the queries, or build a dashboard of their own.
fn table(rows: &[Row]) -> String {
    let mut page = String::from(
        "# Dashboard\n\n\
         <!-- Written by a test from tests/it/observe/panels.rs; change it there. -->\n\n\
         `deploy/grafana/delaybridge.json` is a dashboard for Grafana 9 and later: import it and choose the Prometheus. Its \
         rows stand in the order in which one asks at three in the morning. Each query is run by a test against a real \
         Prometheus that scrapes a real daemon. `or vector(0)` stands where a series appears with its first count, so that \
         its absence is a zero.\n",
    );
    for row in rows {
        // Writing to a String cannot fail.
        let _ = write!(page, "\n## {}\n\n| panel | unit | query |\n|---|---|---|\n", row.title);
        for panel in &row.panels {
            for query in &panel.queries {
                let expr = query.expr.replace('|', "\\|");
                let _ = writeln!(page, "| {} | {} | `{expr}` |", panel.title, panel.unit);
            }
        }
    }
    page
}

#[test]
fn the_dashboard_is_current() {
    assert_current(DASHBOARD, &dashboard(&rows()));
}

#[test]
fn the_table_of_panels_is_current() {
    assert_current(TABLE, &table(&rows()));
}

#[test]
fn every_metric_is_on_the_dashboard() {
    let all: String =
        rows().iter().flat_map(|row| &row.panels).flat_map(|panel| &panel.queries).map(|q| &*q.expr).collect();
    let shown = |name: &str| {
        all.match_indices(name).any(|(at, _)| !all[at + name.len()..].starts_with(|c: char| c.is_ascii_lowercase()))
    };
    let missing: Vec<_> = CATALOGUE.iter().map(|metric| metric.name).filter(|name| !shown(name)).collect();
    assert!(missing.is_empty(), "give these a panel in tests/it/observe/panels.rs: {missing:?}");
}

#[test]
fn every_metric_has_a_unit_that_its_name_agrees_with() {
    for metric in CATALOGUE {
        let named = metric.name.trim_end_matches("_total").ends_with("_seconds");
        assert_eq!(named, metric.unit.starts_with("seconds"), "{}: unit {}", metric.name, metric.unit);
        assert!(!metric.unit.is_empty() && !metric.help.is_empty(), "{}", metric.name);
    }
}
