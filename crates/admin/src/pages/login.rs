//! `/login` and `/logout`: a session of the page in place of the token.

use std::sync::Arc;

use hyper::header::{HeaderName, ORIGIN, SET_COOKIE};
use hyper::{HeaderMap, StatusCode};
use maud::{Markup, html};

use super::layout::{View, page, see_other};
use crate::Admin;
use crate::access::{AdminCaller, COOKIE_NAME};
use crate::forms::form;
use crate::sessions::LASTS;
use delaybridge_http_server::call::Call;
use delaybridge_http_server::problem::Problem;
use delaybridge_http_server::reply::Reply;

const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Returns the form.
pub async fn show(admin: Arc<Admin>, call: Call<AdminCaller>) -> Result<Reply, Problem> {
    call.query.only(&["to"])?;
    let mut view = View::of("/login", &call.caller, admin.access.has_tokens());
    let to = back(call.query.text("to").unwrap_or_default());
    to.clone_into(&mut view.here);
    let body = html! {
        h1 { "Log in" }
        (form_for(to))
    };
    Ok(page(StatusCode::OK, &view, "Log in", &body))
}

/// Returns the form; afterwards the browser goes on to this path.
pub fn form_for(to: &str) -> Markup {
    html! {
        form.login method="post" action="login" {
            p.muted { "With a token of the file " code { "http.admin.tokens_file" } ". The session ends after 12 hours, and with the daemon." }
            input type="hidden" name="to" value=(to);
            label for="token" { "Token" }
            input #token type="password" name="token" required autocomplete="current-password" autofocus;
            button type="submit" { "Log in" }
        }
    }
}

/// Begins a session.
pub async fn log_in(admin: Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    let fields = form(&mut call).await?;
    fields.only(&["token", "to"])?;
    let token = fields.text("token").unwrap_or_default().trim();
    let id = admin.access.log_in(token, call.peer, &admin.events)?;
    // No path: the cookie is for where the page is, also behind a proxy that puts it somewhere else.
    let secure = if is_behind_https(&call.headers) { "; Secure" } else { "" };
    let cookie = format!("{COOKIE_NAME}={id}; HttpOnly; SameSite=Strict; Max-Age={}{secure}", LASTS.as_secs());
    let to = back(fields.text("to").unwrap_or_default());
    Ok(see_other(if to.is_empty() { "./" } else { to }).header(SET_COOKIE, cookie))
}

/// Ends it.
pub async fn log_out(admin: Arc<Admin>, mut call: Call<AdminCaller>) -> Result<Reply, Problem> {
    form(&mut call).await?.only(&[])?;
    admin.access.log_out(&call.headers);
    Ok(see_other("./").header(SET_COOKIE, format!("{COOKIE_NAME}=; HttpOnly; SameSite=Strict; Max-Age=0")))
}

/// Returns whether the browser reaches the page over https: it says where its form is from, and a proxy may say so too.
/// The listener itself has no TLS. A cookie for https alone is never sent without it, and would be lost if the page
/// were at http.
fn is_behind_https(headers: &HeaderMap) -> bool {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    match text(&ORIGIN).and_then(|origin| origin.split_once("://")) {
        Some((scheme, _)) => scheme.eq_ignore_ascii_case("https"),
        None => text(&FORWARDED_PROTO)
            .and_then(|proto| proto.split(',').next())
            .is_some_and(|proto| proto.trim().eq_ignore_ascii_case("https")),
    }
}

/// Returns a path of this page, and none of another one.
fn back(to: &str) -> &str {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.~%/".contains(letter);
    let safe =
        to.len() <= 500 && to.chars().all(plain) && !to.starts_with('/') && !to.contains("//") && !to.contains("..");
    if safe { to } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_for_https_alone_where_the_page_is_at_https() {
        let check = |pairs: &[(&'static str, &str)], secure: bool| {
            let headers = pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
            assert_eq!(is_behind_https(&headers.collect()), secure, "{pairs:?}");
        };
        check(&[("origin", "https://queues.example")], true);
        check(&[("origin", "http://127.0.0.1:9465")], false);
        check(&[("x-forwarded-proto", "https")], true);
        check(&[("x-forwarded-proto", "http")], false);
        // What the browser says counts: a wrong header would lock its user out.
        check(&[("origin", "http://127.0.0.1:9465"), ("x-forwarded-proto", "https")], false);
        check(&[("origin", "null"), ("x-forwarded-proto", "https")], true);
        check(&[], false);
    }

    #[test]
    fn the_way_back_never_leads_to_another_page() {
        for good in ["", "queues/a.b", "queues/a/elements/x%2Fy"] {
            assert_eq!(back(good), good);
        }
        for bad in
            ["//evil.example", "/x", "https://evil.example", "javascript:alert(1)", "a//b", "../x", "a?b", "\\evil"]
        {
            assert_eq!(back(bad), "", "{bad}");
        }
    }
}
