//! The fields of a request: from the path, the query and the body to the type of an operation, and from it to them.
//!
//! No tree of values is made of a stranger's JSON: fields are spans of the body ([`Json`]), and each is read as what the type asks for.
//! Values are not quoted in messages: they may be payload.

use std::fmt::{self, Display};

use bytes::Bytes;
use hyper::Method;
use serde::de::value::StringDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_json::{Map, Value};

use super::{Remote, Route};
use crate::error::Error;
use delaybridge_core::json::{Json, NoParts};
use delaybridge_settings::keys::nearest;

/// Most fields of a body.
const FIELDS: usize = 64;
/// The largest body that a daemon takes.
const MAX_BODY: usize = 1 << 20;
/// Most items of a list.
const ITEMS: usize = 1_000;

/// The value of a field.
#[derive(Debug, Clone)]
enum RequestValue {
    /// The text of a path, a query or a form: the type says whether it is a number. A list has commas between its items.
    Text(String),
    /// A value of a body.
    Json(Json),
    Fields(Vec<(String, RequestValue)>),
}

/// The field of a request whose own fields stand beside the others in a query.
const SPREAD: &str = "filter";

/// The fields of a request.
#[derive(Debug, Default)]
pub struct RequestFields(Vec<(String, RequestValue)>);

impl RequestFields {
    /// Adds a text of a path, a query or a form; an empty one is no field.
    pub fn add_text(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            self.0.push((name.to_owned(), RequestValue::Text(text.to_owned())));
        }
    }

    /// Adds the fields of a body; one that is `null` is no field, and an empty body has none.
    ///
    /// # Errors
    ///
    /// When the body is not a JSON object.
    pub fn add_body(&mut self, body: Bytes) -> Result<(), Error> {
        if body.trim_ascii().is_empty() {
            return Ok(());
        }
        let bad = |problem: String| Error::invalid(format!("read the body: {problem}"));
        let body = Json::read(body).map_err(|problem| bad(problem.to_string()))?;
        let fields = body.members(FIELDS).map_err(|problem| {
            bad(match problem {
                NoParts::Kind => format!("expected a JSON object, found {}", body.kind()),
                NoParts::Many(found) => format!("expected at most {FIELDS} fields, found {found}"),
            })
        })?;
        self.0
            .extend(fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(n, v)| (n, RequestValue::Json(v))));
        Ok(())
    }

    /// Reads the request.
    ///
    /// # Errors
    ///
    /// The field that is unknown, missing, or no such value.
    pub fn read<T: DeserializeOwned>(self) -> Result<T, Error> {
        T::deserialize(RequestValue::Fields(self.0)).map_err(|error| Error::invalid(error.0))
    }

    /// Fields as the end of a query: `&a=1&b=x,y`.
    pub(crate) fn query(fields: &Map<String, Value>) -> String {
        let part = |(name, value): (&String, &Value)| match value {
            Value::Object(inner) => RequestFields::query(inner),
            value => format!("&{name}={}", encoded(value)),
        };
        fields.iter().map(part).collect()
    }

    /// Method, path and body of the request to a daemon.
    pub(crate) fn request<O: Remote>(request: &O) -> Result<(Method, String, Bytes), Error> {
        let failed = |problem: &dyn Display| Error::failed(format!("write the request `{}`: {problem}", O::NAME));
        let value = serde_json::to_value(request).map_err(|error| Error::invalid(error.to_string()))?;
        let Value::Object(mut fields) = value else {
            return Err(failed(&"it has no fields"));
        };
        fields.retain(|_, value| !value.is_null());
        let has = |fields: &Map<String, Value>, route: &Route| route.names().all(|name| fields.contains_key(name));
        let route = O::ROUTES.iter().find(|route| has(&fields, route)).ok_or_else(|| {
            let names: Vec<_> =
                O::ROUTES.iter().flat_map(Route::names).filter(|name| !fields.contains_key(*name)).collect();
            let names = names.join(" or ");
            Error::invalid(format!(
                "ask a daemon for `{}`: name its {names}, or run the command without --daemon",
                O::NAME
            ))
        })?;
        let mut path = route.path.to_owned();
        for name in route.names() {
            let value = fields.shift_remove(name).unwrap_or_default();
            path = path.replace(&format!("{{{name}}}"), &encoded(&value));
        }
        let lines = request.clone().lines().map(std::mem::take);
        if route.has_body() && lines.is_none() {
            let body = serde_json::to_vec(&fields).map_err(|error| failed(&error))?;
            return Ok((route.method.clone(), path, body.into()));
        }
        let query = RequestFields::query(&fields);
        if let Some(query) = query.strip_prefix('&') {
            path = format!("{path}?{query}");
        }
        let body = lines.as_deref().map(body_of).transpose()?.unwrap_or_default();
        Ok((route.method.clone(), path, body))
    }
}

/// Lines as the body of a request.
fn body_of(lines: &[Bytes]) -> Result<Bytes, Error> {
    let line = |line: &Bytes| [line.strip_suffix(b"\n").unwrap_or(line), b"\n"].concat();
    let body = lines.iter().map(line).collect::<Vec<_>>().concat();
    if body.len() > MAX_BODY {
        Err(Error::failed(format!(
            "the line has {} bytes, and a daemon takes {MAX_BODY}; import it over Redis, without --daemon",
            body.len()
        )))
    } else {
        Ok(body.into())
    }
}

impl Route {
    /// Returns whether fields that are not in the path are in the body of a request; else they are in the query.
    pub fn has_body(&self) -> bool {
        ![Method::GET, Method::DELETE].contains(&self.method)
    }

    /// Returns the names in the path.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('{').skip(1).filter_map(|part| part.split('}').next())
    }
}

/// Returns a value as a part of a path or a query.
fn encoded(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(|item| item.as_str().unwrap_or_default()).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    };
    percent_encoding::utf8_percent_encode(&text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// A mistake in a field, in words.
#[derive(Debug)]
struct FieldError(String);

impl Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FieldError {}

impl FieldError {
    /// Returns the same, of the field with this name.
    fn of(self, name: &str) -> FieldError {
        FieldError(match self.0.strip_prefix("read `") {
            Some(inner) => format!("read `{name}.{inner}"),
            None if self.0.starts_with("read the ") => self.0,
            None => format!("read `{name}`: {}", self.0),
        })
    }
}

impl de::Error for FieldError {
    fn custom<T: Display>(message: T) -> Self {
        FieldError(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        let found = match found {
            Unexpected::Bool(_) => "true or false",
            Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
            Unexpected::Seq => "a list",
            Unexpected::Map => "an object",
            _ => "a text",
        };
        let expected = match expected.to_string().as_str() {
            "a string" => "a text".to_owned(),
            "a boolean" => "true or false".to_owned(),
            "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0 on".to_owned(),
            "i64" => "a whole number".to_owned(),
            "f32" | "f64" => "a number".to_owned(),
            other => other.to_owned(),
        };
        FieldError(format!("expected {expected}, found {found}"))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        FieldError(format!("expected {expected}"))
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        let (last, first) = expected.split_last().unwrap_or((&"nothing", &[]));
        FieldError(if first.is_empty() {
            format!("it is {last}")
        } else {
            format!("it is {} or {last}", first.join(", "))
        })
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let help = match nearest(field, expected.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("known are {}", expected.join(", ")),
        };
        let field: String = field.chars().take(60).collect();
        FieldError(format!("read the request: unknown field `{}`; {help}", field.escape_default()))
    }

    fn missing_field(field: &'static str) -> Self {
        FieldError(format!("read the request: there is no `{field}`"))
    }

    fn duplicate_field(field: &'static str) -> Self {
        FieldError(format!("read the request: `{field}` is there twice"))
    }
}

/// Fields, one after the other.
struct FieldMap<I> {
    fields: I,
    value: Option<(String, RequestValue)>,
}

impl<'de, I: Iterator<Item = (String, RequestValue)>> MapAccess<'de> for FieldMap<I> {
    type Error = FieldError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, FieldError> {
        let Some((name, value)) = self.fields.next() else { return Ok(None) };
        let key: StringDeserializer<FieldError> = name.clone().into_deserializer();
        self.value = Some((name, value));
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, FieldError> {
        let (name, value) = self.value.take().ok_or_else(|| de::Error::custom("a value without its name"))?;
        let spread = matches!(value, RequestValue::Fields(_));
        seed.deserialize(value).map_err(|error| if spread { error } else { error.of(&name) })
    }
}

/// Items of a list, one after the other.
struct FieldItems(std::vec::IntoIter<RequestValue>);

impl<'de> SeqAccess<'de> for FieldItems {
    type Error = FieldError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, FieldError> {
        self.0.next().map(|item| seed.deserialize(item)).transpose()
    }
}

/// Reads a text as the number that the type asks for.
macro_rules! numbers {
    ($($method:ident $visit:ident $number:ident,)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
            match &self {
                RequestValue::Text(text) => match text.parse::<$number>() {
                    Ok(number) => visitor.$visit(number),
                    Err(_) => Err(de::Error::invalid_type(Unexpected::Str(text), &visitor)),
                },
                _ => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'de> Deserializer<'de> for RequestValue {
    type Error = FieldError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        let value = match self {
            RequestValue::Text(text) => return visitor.visit_string(text),
            RequestValue::Fields(fields) => {
                return visitor.visit_map(FieldMap { fields: fields.into_iter(), value: None });
            }
            RequestValue::Json(value) => value,
        };
        if let Some(text) = value.text() {
            return visitor.visit_string(String::from_utf8_lossy(&text).into_owned());
        }
        if let Some(number) = value.number() {
            return visitor.visit_u64(number);
        }
        if let Some(flag) = value.flag() {
            return visitor.visit_bool(flag);
        }
        let many = |problem| match problem {
            NoParts::Many(found) => de::Error::custom(format!("expected at most {ITEMS} items, found {found}")),
            NoParts::Kind => FieldError(format!("found {}", value.kind())),
        };
        if value.is_number() {
            let text = String::from_utf8_lossy(value.bytes());
            return match (text.parse::<i64>(), text.parse::<f64>()) {
                (Ok(number), _) => visitor.visit_i64(number),
                (Err(_), Ok(number)) => visitor.visit_f64(number),
                (Err(_), Err(_)) => Err(many(NoParts::Kind)),
            };
        }
        match value.bytes().first() {
            Some(b'[') => {
                let items = value.items(ITEMS).map_err(many)?;
                let items: Vec<_> = items.into_iter().map(RequestValue::Json).collect();
                visitor.visit_seq(FieldItems(items.into_iter()))
            }
            Some(b'{') => {
                let fields = value.members(FIELDS).map_err(many)?;
                let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
                let fields = fields.map(|(name, value)| (name, RequestValue::Json(value)));
                visitor.visit_map(FieldMap { fields, value: None })
            }
            _ => visitor.visit_unit(),
        }
    }

    numbers! {
        deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64,
        deserialize_i64 visit_i64 i64,
        deserialize_f64 visit_f64 f64,
        deserialize_bool visit_bool bool,
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self {
            RequestValue::Text(text) => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty()).take(ITEMS + 1);
                let items: Vec<_> = items.map(|item| RequestValue::Text(item.to_owned())).collect();
                if items.len() > ITEMS {
                    return Err(FieldError(format!("expected at most {ITEMS} items, found more")));
                }
                visitor.visit_seq(FieldItems(items.into_iter()))
            }
            // A list of one may be the item.
            RequestValue::Json(value) if value.text().is_some() => {
                visitor.visit_seq(FieldItems(vec![RequestValue::Json(value)].into_iter()))
            }
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        let RequestValue::Fields(mut fields) = self else { return self.deserialize_any(visitor) };
        if known.contains(&SPREAD) {
            let spreads = |(name, value): &mut (String, RequestValue)| {
                matches!(value, RequestValue::Text(_)) && !known.contains(&name.as_str())
            };
            let spread: Vec<_> = fields.extract_if(.., spreads).collect();
            if !spread.is_empty() {
                fields.push((SPREAD.to_owned(), RequestValue::Fields(spread)));
            }
        }
        RequestValue::Fields(fields).deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match &self {
            RequestValue::Json(value) if value.is_null() => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        let text = match self {
            RequestValue::Text(text) => text,
            RequestValue::Json(value) => match value.text() {
                Some(text) => String::from_utf8_lossy(&text).into_owned(),
                None => return Err(FieldError(format!("expected a text, found {}", value.kind()))),
            },
            RequestValue::Fields(_) => return Err(FieldError("expected a text, found an object".to_owned())),
        };
        let text: StringDeserializer<FieldError> = text.into_deserializer();
        visitor.visit_enum(text)
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i128 u8 u128 f32 char str string bytes byte_buf unit unit_struct tuple tuple_struct map identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Colour {
        #[default]
        Red,
        DarkGreen,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Request {
        queue: String,
        limit: Option<u16>,
        at_ms: Option<i64>,
        rate: Option<f64>,
        colour: Colour,
        fields: Vec<String>,
        sure: bool,
    }

    fn read(texts: &[(&str, &str)], body: &str) -> Result<Request, String> {
        let mut fields = RequestFields::default();
        texts.iter().for_each(|(name, text)| fields.add_text(name, text));
        fields.add_body(Bytes::copy_from_slice(body.as_bytes())).map_err(|error| error.message)?;
        fields.read().map_err(|error| error.message)
    }

    #[test]
    fn the_type_says_what_a_text_is() {
        let expected = Request {
            queue: "7".to_owned(),
            limit: Some(20),
            at_ms: Some(-5),
            rate: Some(0.5),
            colour: Colour::DarkGreen,
            fields: vec!["a=1".to_owned(), "b=2".to_owned()],
            sure: true,
        };
        let texts = [
            ("queue", "7"),
            ("limit", "20"),
            ("at_ms", "-5"),
            ("rate", "0.5"),
            ("colour", "dark_green"),
            ("fields", "a=1,b=2"),
            ("sure", "true"),
        ];
        assert_eq!(read(&texts, "").as_ref(), Ok(&expected));
        let body = r#"{"limit":20,"at_ms":-5,"rate":0.5,"colour":"dark_green","fields":["a=1","b=2"],"sure":true}"#;
        assert_eq!(read(&[("queue", "7")], body).as_ref(), Ok(&expected));
        assert_eq!(read(&[("limit", "")], r#"{"limit":null}"#), Ok(Request::default()), "nothing is no field");
    }

    #[test]
    fn mistakes_are_answered_with_what_to_write_and_without_the_value() {
        for (texts, body, expected) in [
            (&[][..], "[]", "read the body: expected a JSON object, found a list"),
            (&[], "{\"queue\":", "read the body: it is not valid JSON, at line 1, column 9"),
            (&[], r#"{"queu":"secret"}"#, "read the request: unknown field `queu`; did you mean `queue`?"),
            (&[], r#"{"queue":7}"#, "read `queue`: expected a text, found a number"),
            (&[], r#"{"limit":"secret"}"#, "read `limit`: expected a whole number from 0 on, found a text"),
            (&[], r#"{"limit":70000}"#, "read `limit`: expected u16"),
            (&[("limit", "secret")], "", "read `limit`: expected a whole number from 0 on, found a text"),
            (&[("colour", "blue")], "", "read `colour`: it is red or dark_green"),
            (&[], r#"{"colour":5}"#, "read `colour`: expected a text, found another number"),
            (&[], r#"{"fields":{}}"#, "read `fields`: expected a sequence, found an object"),
            (&[("queue", "a")], r#"{"queue":"b"}"#, "read the request: `queue` is there twice"),
        ] {
            assert_eq!(read(texts, body).unwrap_err(), expected, "{texts:?} {body}");
        }
        let deep = format!(r#"{{"fields":{}}}"#, "[".repeat(100_000));
        assert!(read(&[], &deep).unwrap_err().contains("128 levels"));
        let many = format!(r#"{{"fields":["x"{}]}}"#, r#","x""#.repeat(1_000));
        assert!(read(&[], &many).unwrap_err().contains("at most 1000 items, found 1001"));
    }
}
