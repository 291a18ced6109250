//! What traces cost where none are wanted: the instructions that an element's whole way spends on asking for them, and in the code that
//! makes them. Counted line by line, with the same queue as in `whole_way.rs`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use delaybridge::spans::Tracer;
use delaybridge::telemetry::events::Events;

use crate::callgrind::{self, Profile};
use crate::limits::TRACES_OFF;
use crate::whole_way::{BATCH, send};

/// Claims of a run: the first one makes what is made once.
const CLAIMS: usize = 2;
/// How the run that is counted knows whether it traces.
const TRACES: &str = "DELAYBRIDGE_GUARD_TRACES";

/// Where the pipeline asks whether elements are traced: lines by files.
fn asked() -> HashSet<(PathBuf, u32)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/pipeline");
    let (mut folders, mut lines) = (vec![root], HashSet::new());
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

/// Instructions an element: where traces are asked for, in the code of traces, and in all.
fn count(traces: &str) -> [f64; 3] {
    let profile = callgrind::profile("traces::runs_under_callgrind", &[(TRACES, traces)]);
    let each = |instructions: u64| instructions as f64 / (CLAIMS * BATCH) as f64;
    let asked = asked();
    // What is asked of is reached through pointers, by calls that an optimised build does not make. What the pipeline itself does in
    // the same line is not meant.
    let at = |profile: &Profile| profile.at_lines(&asked, |called| !called.contains("delaybridge::"));
    [each(at(&profile)), each(profile.in_functions("delaybridge::spans")), each(profile.instructions)]
}

#[test]
fn an_element_that_is_not_traced_pays_for_a_few_questions_and_nothing_else() {
    let [asking, making, all] = count("");
    println!("traces off: {asking:.1} instructions where they are asked for, {making:.2} in their code, of {all:.0}");
    // The end of what is not there is one, once a claim: so both were found.
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
