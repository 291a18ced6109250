//! The result as JUnit XML, which CI systems show.

use std::collections::BTreeMap;

use crate::config_tests::CaseResult;

/// Returns one suite a file, in the order of the names.
pub(super) fn report(cases: &[CaseResult]) -> String {
    let mut files: BTreeMap<&str, Vec<&CaseResult>> = BTreeMap::new();
    for case in cases {
        files.entry(&case.file).or_default().push(case);
    }
    let failed = |cases: &[&CaseResult]| cases.iter().filter(|case| !case.ok).count();
    let all: Vec<&CaseResult> = cases.iter().collect();
    let mut xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"delaybridge\" tests=\"{}\" failures=\"{}\" errors=\"0\">\n",
        all.len(),
        failed(&all)
    );
    for (file, cases) in files {
        let name = quoted(file);
        xml.push_str(&format!(
            "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"0\">\n",
            cases.len(),
            failed(&cases)
        ));
        for case in cases {
            let head = format!(
                "    <testcase name=\"{}\" classname=\"{}\" file=\"{name}\" line=\"{}\" time=\"0\"",
                quoted(&case.name),
                quoted(&case.queue),
                case.line
            );
            xml.push_str(&head);
            xml.push_str(&if case.ok { "/>\n".to_owned() } else { failure(case) });
        }
        xml.push_str("  </testsuite>\n");
    }
    xml.push_str("</testsuites>\n");
    xml
}

fn failure(case: &CaseResult) -> String {
    let lines = case.differences.iter();
    let lines = lines.map(|one| format!("{}\n  expected  {}\n  got       {}\n", one.path, one.expected, one.got));
    let first = case.differences.first().map(|one| one.path.as_str()).unwrap_or_default();
    let message = quoted(&format!("{first} is not as expected"));
    format!(
        ">\n      <failure message=\"{message}\">{}</failure>\n    </testcase>\n",
        quoted(&lines.collect::<String>())
    )
}

/// Text in XML 1.0: what it cannot carry, control characters among others, becomes a replacement character.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => quoted.push_str("&amp;"),
            '<' => quoted.push_str("&lt;"),
            '>' => quoted.push_str("&gt;"),
            '"' => quoted.push_str("&quot;"),
            '\n' => quoted.push_str("&#10;"),
            '\t' => quoted.push_str("&#9;"),
            '\r' => quoted.push_str("&#13;"),
            letter if letter.is_control() && letter < '\u{80}' || matches!(letter, '\u{fffe}' | '\u{ffff}') => {
                quoted.push('\u{fffd}');
            }
            letter => quoted.push(letter),
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_tests::Mismatch;

    #[test]
    fn a_report_has_every_case_and_nothing_that_xml_refuses() {
        let differences =
            vec![Mismatch { path: "deliver[a].body".into(), expected: "<a&\"b\"".into(), got: "\x1b[1m".into() }];
        let case = |name: &str, differences: Vec<Mismatch>| CaseResult {
            file: "c.yaml".into(),
            line: 7,
            name: name.into(),
            queue: "q".into(),
            ok: differences.is_empty(),
            differences,
        };
        let xml = report(&[case("fine", Vec::new()), case("1 < 2", differences)]);
        assert!(xml.contains("<testsuite name=\"c.yaml\" tests=\"2\" failures=\"1\""), "{xml}");
        assert!(
            xml.contains("<testcase name=\"fine\" classname=\"q\" file=\"c.yaml\" line=\"7\" time=\"0\"/>"),
            "{xml}"
        );
        assert!(xml.contains("name=\"1 &lt; 2\"") && xml.contains("expected  &lt;a&amp;&quot;b&quot;"), "{xml}");
        assert!(xml.contains("got       \u{fffd}[1m") && !xml.contains('\x1b'), "{xml}");
    }
}
