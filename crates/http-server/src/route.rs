//! A line of a table of endpoints: requests are matched with it, metrics are named by it, the OpenAPI document is made of it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hyper::Method;
use hyper::body::Body;

use super::call::Call;
use super::openapi::operation::Operation;
use super::problem::{Problem, ProblemKind};
use super::reply::Reply;
use super::room::MaybeNamed;

/// Bytes of a body that may still say nothing: `null` and white space. A longer one is not read where none is taken.
const NOTHING: u64 = 16;

/// The answer of a handler.
pub type Answer = BoxFuture<'static, Result<Reply, Problem>>;

/// One endpoint of an API with this state and these callers, and its rule about who may call it.
pub struct Route<S, C, R> {
    /// The method; `HEAD` goes where `GET` does.
    pub method: Method,
    /// Whether it serves all other methods too.
    pub any_method: bool,
    /// The path, with `{names}`.
    pub path: &'static str,
    /// The name: the operation in the OpenAPI document.
    pub name: &'static str,
    /// The label in metrics.
    pub label: &'static str,
    /// The rule about who may call it.
    pub rule: R,
    /// The description, of an endpoint that the OpenAPI document has.
    pub operation: Option<Operation>,
    /// The function that answers.
    pub handler: fn(Arc<S>, Call<C>) -> Answer,
}

impl<S, C: MaybeNamed, R> Route<S, C, R> {
    /// Checks that a documented endpoint has a use for all that the call brings: every parameter of the query, and the body.
    ///
    /// # Errors
    /// A parameter is not known, or there is a body where none is taken: what it asks for would not be done, without a word. Those of
    /// [`Call::read`].
    pub async fn check(&self, call: &mut Call<C>) -> Result<(), Problem> {
        let Some(operation) = &self.operation else { return Ok(()) };
        operation.check(&call.query)?;
        let Some(body) = call.body.as_ref().filter(|body| !body.is_end_stream()) else { return Ok(()) };
        if operation.has_body(&self.method) {
            return Ok(());
        }
        let help = match operation.parameters().join(", ") {
            none if none.is_empty() => "leave it out".to_owned(),
            parameters => format!("its query may have {parameters}"),
        };
        let refusal = Problem::bad(format!("read the body: this endpoint takes none: {help}"));
        if body.size_hint().lower() > NOTHING {
            return Err(refusal);
        }
        call.read(move |body| match body.trim_ascii() {
            // What some clients send with every request.
            b"" | b"{}" | b"null" => Ok(()),
            _ => Err(refusal),
        })
        .await
    }
}

impl<S, C, R> Route<S, C, R> {
    /// Lets the handler answer. A panic in it is an answer, and not the end of all requests of the connection.
    ///
    /// # Errors
    /// Those of the handler.
    pub async fn answer(&self, state: Arc<S>, call: Call<C>) -> Result<Reply, Problem> {
        let answer = AssertUnwindSafe((self.handler)(state, call)).catch_unwind();
        answer.await.unwrap_or_else(|_| {
            let detail = "answer the request: this program has a defect; its log has the place";
            Err(Problem::new(ProblemKind::Unexpected, detail))
        })
    }
}
