//! The matching of requests with a table of routes.

use std::collections::HashMap;

use hyper::Method;

use super::problem::{Problem, ProblemKind};
use super::route::Route;
use super::text::{clip, decode};

/// The routes by path.
pub struct Router<R: 'static> {
    paths: matchit::Router<Vec<&'static R>>,
}

impl<S: 'static, C: 'static, R: 'static> Router<Route<S, C, R>> {
    /// Creates a router for these routes.
    pub fn new(routes: impl IntoIterator<Item = &'static Route<S, C, R>>) -> Self {
        let mut by_path: HashMap<&str, Vec<&'static Route<S, C, R>>> = HashMap::new();
        for route in routes {
            by_path.entry(route.path).or_default().push(route);
        }
        let mut paths = matchit::Router::new();
        for (path, routes) in by_path {
            // The table is fixed, and every test that makes a router proves it.
            paths.insert(path, routes).expect("no two paths of the table contradict each other");
        }
        Router { paths }
    }

    /// Finds the route, with the parts of the path that have names.
    ///
    /// # Errors
    /// There is none.
    pub fn find(&self, method: &Method, path: &str) -> Result<(&'static Route<S, C, R>, Parts), NoRoute> {
        let found = self.paths.at(path).map_err(|_| NoRoute::Path)?;
        let wanted = if method == Method::HEAD { &Method::GET } else { method };
        let serves = |route: &&&'static Route<S, C, R>| route.method == wanted || route.any_method;
        let Some(route) = found.value.iter().find(serves) else {
            return Err(NoRoute::Method(
                found.value.iter().map(|route| route.method.as_str()).collect::<Vec<_>>().join(", "),
            ));
        };
        let names = ["topic", "id", "namespace", "queue", "token", "sink", "file", "name"];
        let part = |name: &'static str| found.params.get(name).map(|value| (name, decode(value)));
        Ok((route, names.into_iter().filter_map(part).collect()))
    }
}

/// The named parts of a path.
pub type Parts = Vec<(&'static str, String)>;

/// The reason why there is no route.
pub enum NoRoute {
    /// The path is not known.
    Path,
    /// The path is known, with these methods.
    Method(String),
}

impl NoRoute {
    /// Returns the problem that the client gets.
    pub fn problem(self, method: &Method, path: &str) -> Problem {
        match self {
            NoRoute::Path if matches!(path, "/metrics" | "/livez" | "/readyz" | "/startupz") => Problem::new(
                ProblemKind::NoSuchPath,
                format!(
                    "find the path: {path} is at the address of `http.listen`, 127.0.0.1:9464 if nothing else is written there"
                ),
            ),
            NoRoute::Path => Problem::new(
                ProblemKind::NoSuchPath,
                "find the path: there is none of this name; GET /v1/openapi.json lists them",
            ),
            NoRoute::Method(allowed) => {
                let detail = format!("use the path: it has {allowed}, not {}", clip(method.as_str()));
                Problem::new(ProblemKind::Method, detail).with("allow", allowed.into())
            }
        }
    }
}
