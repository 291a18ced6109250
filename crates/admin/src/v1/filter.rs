//! Which dead letters a request means: the same filter in a query, in a form and in JSON.

use std::time::Duration;

use delaybridge_core::json::Json;
use delaybridge_jobs_http::call::Query;
use delaybridge_jobs_http::fields::JsonFields;
use delaybridge_jobs_http::problem::Problem;
use delaybridge_ops::dead::Filter;
use delaybridge_ops::pause::length;

/// The names of the filter's parts in a query. Several values of one are separated by commas.
pub const NAMES: [&str; 8] = ["reason", "class", "code", "sink", "older_than", "newer_than", "id_prefix", "field"];
/// Most values of one kind.
const MOST: usize = 100;

/// The filter of a query or a form.
///
/// # Errors
/// What cannot be read.
pub fn of_query(query: &Query) -> Result<Filter, Problem> {
    let texts = |name: &str| -> Vec<String> {
        let parts = query.text(name).unwrap_or_default().split(',').map(str::trim);
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    };
    let text = |name: &str| query.text(name).map(str::trim).filter(|text| !text.is_empty());
    let filter = Filter {
        reasons: texts("reason"),
        classes: texts("class"),
        codes: texts("code"),
        sinks: texts("sink"),
        older_than: age("older_than", text("older_than"))?,
        newer_than: age("newer_than", text("newer_than"))?,
        id_prefix: text("id_prefix").map(str::to_owned),
        // A value may have commas in it.
        fields: text("field").map(read_field).transpose()?.into_iter().collect(),
    };
    checked(filter)
}

/// The filter in a JSON object: texts or lists of texts.
///
/// # Errors
/// What cannot be read.
pub fn of_json(value: &Json) -> Result<Filter, Problem> {
    let mut fields = JsonFields::of("filter.".to_owned(), value)?;
    let mut texts = |name: &'static str| -> Result<Vec<String>, Problem> {
        let Some(value) = fields.value(name) else { return Ok(Vec::new()) };
        let values = value.items(MOST).unwrap_or_else(|_| vec![value]);
        let text = |value: &Json| match value.text() {
            Some(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
            None => Err(Problem::bad(format!("read `filter.{name}`: expected a text, or a list of at most {MOST}"))),
        };
        values.iter().map(text).collect()
    };
    let (reasons, classes, codes, sinks) = (texts("reason")?, texts("class")?, texts("code")?, texts("sink")?);
    let payload = texts("field")?.iter().map(|field| read_field(field)).collect::<Result<_, _>>()?;
    let (older, newer) = (fields.text("older_than")?, fields.text("newer_than")?);
    let filter = Filter {
        reasons,
        classes,
        codes,
        sinks,
        older_than: age("older_than", older.as_deref())?,
        newer_than: age("newer_than", newer.as_deref())?,
        id_prefix: fields.text("id_prefix")?,
        fields: payload,
    };
    fields.finish()?;
    checked(filter)
}

fn checked(filter: Filter) -> Result<Filter, Problem> {
    filter.check().map_err(|error| Problem::bad(error.message))?;
    Ok(filter)
}

fn age(name: &str, text: Option<&str>) -> Result<Option<Duration>, Problem> {
    let read = |text| length(text).map_err(|problem| Problem::bad(format!("read `{name}`: {problem}")));
    text.map(read).transpose()
}

/// The text itself is not quoted: it has a value of a payload in it.
pub fn read_field(text: &str) -> Result<delaybridge_ops::dead::FieldIs, Problem> {
    text.parse().map_err(|problem| Problem::bad(format!("read `field`: {problem}")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn span(value: &Value) -> Json {
        Json::read(value.to_string().into()).unwrap()
    }

    #[test]
    fn query_and_json_mean_the_same() {
        let read = |text: &str| of_query(&Query::parse(text).unwrap()).unwrap();
        let query = read("reason=expired,junk&older_than=1h&field=a.b%3D7,8&sink=");
        let object = json!({ "reason": ["expired", "junk"], "older_than": "1h", "field": "a.b=7,8" });
        assert_eq!(query, of_json(&span(&object)).unwrap());
        assert_eq!(query.words(), "dead letters with reason expired or junk, older than 1h, a field of the payload");
        assert_eq!(read("").words(), "all dead letters");
    }

    #[test]
    fn mistakes_are_explained_and_no_value_of_a_payload_is_quoted() {
        let bad = |value| of_json(&span(&value)).unwrap_err().detail;
        assert!(bad(json!({ "reasn": "x" })).contains("did you mean `reason`?"));
        assert!(bad(json!({ "older_than": "soon" })).contains("read `older_than`"));
        assert!(bad(json!({ "code": [7] })).contains("expected a text"));
        let field = bad(json!({ "field": "secret" }));
        assert!(field.contains("PATH=VALUE") && !field.contains("secret"), "{field}");
    }
}
