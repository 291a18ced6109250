//! The form that pauses a queue or a sink, and what it says.

use std::sync::Arc;

use maud::{Markup, html};

use super::layout::{encoded, see_other};
use super::list_place::{LIST, ListPlace};
use crate::Admin;
use crate::access::AdminCaller;
use crate::changes::Asker;
use crate::forms::form;
use delaybridge_http_server::call::{Call, Query};
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;
use delaybridge_ops::operations::{Pause, Resume};
use delaybridge_ops::time::Moment;

const FIELDS: [&str; 4] = ["why", "for", "until", LIST];

/// Returns the form to pause, or to resume what is paused; `subject` is `queue` or `sink`, `path` the way to its page.
pub fn pause_form(path: &str, subject: &str, effect: &str, is_paused: bool, place: &ListPlace) -> Markup {
    html! {
        @if is_paused {
            form.act method="post" action={ (path) "/resume" } { (place.field()) button type="submit" { "Resume" } }
        } @else {
            details.act #pause {
                summary { "Pause …" }
                form method="post" action={ (path) "/pause" } {
                    p { (effect) }
                    label { "Why " input name="why" required maxlength="200" size="40" autocomplete="off"; }
                    label { "For " input name="for" size="8" placeholder="2h 30m" autocomplete="off" aria-describedby="for-help"; }
                    label { "or until (UTC) " input name="until" type="datetime-local" aria-describedby="for-help"; }
                    span.muted #for-help { "both empty: until it is resumed" }
                    (place.field())
                    button type="submit" { "Pause the " (subject) }
                }
            }
        }
    }
}

/// Pauses the queue or sink in the path, and shows it again.
pub async fn pause(admin: Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let fields = form(&mut call).await?;
    fields.only(&FIELDS)?;
    admin.operate(wanted(&call, &fields)?, Asker::of(&call)).await?;
    Ok(shown(&call, &fields))
}

/// Ends the pause of the queue or sink in the path, and shows it again.
pub async fn resume(admin: Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let fields = form(&mut call).await?;
    fields.only(&[LIST])?;
    let [queue, sink] = paused_target(&call);
    admin.operate(Resume { queue, sink }, Asker::of(&call)).await?;
    Ok(shown(&call, &fields))
}

/// Sends the browser back to what was paused or resumed.
fn shown(call: &Call<AdminCaller>, fields: &Query) -> Reply {
    let name = paused_target(call).into_iter().flatten().next().unwrap_or_default();
    see_other(&format!("../{}{}", encoded(&name), ListPlace::carried(fields).behind('?')))
}

/// Returns the pause that a form asks for, of the queue or sink in the path. A form needs a reason, and a time that can
/// be read.
fn wanted(call: &Call<AdminCaller>, fields: &Query) -> Result<Pause, Problem> {
    let text = |name| fields.text(name).map(str::trim).filter(|text| !text.is_empty());
    let why = text("why")
        .ok_or_else(|| Problem::bad("read the form: say why, for everybody who wonders why nothing moves"))?;
    let length = text("for").map(|text| text.parse().map_err(|why| Problem::bad(format!("read `for`: {why}"))));
    let until = text("until").map(|until| field_time("until", until)).transpose()?;
    let [queue, sink] = paused_target(call);
    Ok(Pause { queue, sink, why: why.to_owned(), by: None, length: length.transpose()?, until })
}

/// Returns the queue and the sink in the path: one of them.
fn paused_target(call: &Call<AdminCaller>) -> [Option<String>; 2] {
    ["queue", "sink"].map(|name| Some(call.part(name).to_owned()).filter(|name| !name.is_empty()))
}

/// Returns the time in a field for date and time, in milliseconds since 1970: browsers write `2026-11-27T06:00`, in
/// UTC: a script of the page turns the reader's time into it.
pub fn field_time(name: &str, text: &str) -> Result<Moment, Problem> {
    let whole = match text.len() {
        16 => format!("{text}:00Z"),
        _ => format!("{}Z", text.trim_end_matches('Z')),
    };
    whole.parse().map_err(|_: String| Problem::bad(format!("read `{name}`: write 2027-01-31T09:00")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_for_date_and_time_is_read_as_browsers_write_it() {
        for text in ["2027-01-31T09:00", "2027-01-31T09:00:00", "2027-01-31T09:00:00Z"] {
            assert_eq!(field_time("until", text).ok(), Some(Moment(1_801_386_000_000)), "{text}");
        }
        for text in ["09:00", "tomorrow", "2027-13-31T09:00", ""] {
            assert!(field_time("until", text).unwrap_err().detail.contains("`until`"), "{text}");
        }
    }
}
