//! The cost of traces where none are wanted: the instructions per element spent on checking for them, and in their
//! code. Counted line by line, with the same queue as in `whole_way.rs`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use delaybridge_spans::Tracer;
use delaybridge_telemetry::events::Events;

use crate::callgrind::{self, Profile};
use crate::limits::TRACES_OFF;
use crate::whole_way::{BATCH, send};

/// Number of claims in a run: the first includes all one-time work.
const CLAIMS: usize = 2;
/// The variable that turns on traces in the counted run.
const TRACES: &str = "DELAYBRIDGE_GUARD_TRACES";

/// The lines of the pipeline that check whether elements are traced, by file.
fn asked() -> HashSet<(PathBuf, u32)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/pipeline/src");
    let mut folders = vec![root];
    let mut lines = HashSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("read the source") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("read a file of the source");
            let asks = |line: &str| line.contains(".traces") || line.contains(".tracer");
            let found =
                (1..).zip(text.lines()).filter(|(_, line)| asks(line)).map(|(number, _)| (path.clone(), number));
            lines.extend(found);
        }
    }
    assert!(lines.len() >= 7, "{lines:?}");
    lines
}

/// Instructions per element: in the checks for traces, in the code of traces, and in total.
fn count(traces: &str) -> [f64; 3] {
    let profile = callgrind::profile("traces::runs_under_callgrind", &[(TRACES, traces)]);
    let each = |instructions: u64| instructions as f64 / (CLAIMS * BATCH) as f64;
    let asked = asked();
    // Calls through pointers that an optimised build inlines are included. The pipeline's own work in the same line is
    // not.
    let at = |profile: &Profile| {
        profile.at_lines(&asked, |called| !called.contains("delaybridge::") && !called.contains("delaybridge_"))
    };
    [each(at(&profile)), each(profile.in_functions("delaybridge_spans")), each(profile.instructions)]
}

#[test]
fn an_element_that_is_not_traced_pays_for_a_few_questions_and_nothing_else() {
    let [asking, making, all] = count("");
    println!("traces off: {asking:.1} instructions where they are asked for, {making:.2} in their code, of {all:.0}");
    // The drop of an absent trace counts at least once per claim, so both were found.
    assert!(asking > 5.0 && making > 0.0, "the lines or the code were not found: {asking}, {making}");
    if std::env::var_os("DELAYBRIDGE_LONG").is_some() {
        let [.., sampled, with] = count("1.0");
        println!("all traced: {sampled:.0} instructions in the code of traces, of {with:.0}");
        assert!(sampled > 100.0 * making, "{sampled} instructions in the code of traces");
    }
    assert!(asking <= TRACES_OFF.asking && making <= TRACES_OFF.making, "over the limits, see tests/guard/limits.rs");
}

#[test]
#[ignore = "the test above runs it, under callgrind"]
fn runs_under_callgrind() {
    let sample = std::env::var(TRACES).expect("the part that is traced").parse().ok();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let tracer = sample.map(|sample| Tracer::new(sample, Events::default().metrics().spans()));
    runtime.block_on(send(CLAIMS, tracer));
}
