//! Errors of the connection to Redis as errors of the store: the only place that knows which error codes pass.

use super::error::StoreError;
use delaybridge_link::LinkError;

/// Answers of a server that cannot do it now, and may be able to in a moment.
const PASSING: [&str; 9] =
    ["LOADING", "BUSY", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "MOVED", "ASK", "NOREPLICAS", "MISCONF"];

impl StoreError {
    /// Builds the error of a server that answered with this code.
    pub fn answered(code: &'static str, message: String) -> StoreError {
        match code {
            "TRYAGAIN" => StoreError::Moving { code, message },
            _ if PASSING.contains(&code) => StoreError::Passing { code, message },
            _ => StoreError::Refused { code, message },
        }
    }
}

impl From<LinkError> for StoreError {
    fn from(error: LinkError) -> StoreError {
        match error {
            LinkError::NotSent { address } => StoreError::NotSent { address },
            LinkError::Unknown { address, reason } => StoreError::Unknown { address, reason },
            LinkError::Server { code, message } => StoreError::answered(code, message),
            LinkError::Malformed(what) => StoreError::Malformed(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_refusal_needs_a_person() {
        for (code, passes) in
            [("TRYAGAIN", true), ("LOADING", true), ("MISCONF", true), ("NOPERM", false), ("OTHER", false)]
        {
            let error = StoreError::from(LinkError::Server { code, message: "text".to_owned() });
            assert_eq!((error.passes(), error.code()), (passes, Some(code)));
            assert_eq!(error.to_string(), format!("Redis answered {code}: text"));
            assert_eq!(matches!(error, StoreError::Moving { .. }), code == "TRYAGAIN");
        }
        let error = StoreError::from(LinkError::NotSent { address: "here".into() });
        assert_eq!((error.passes(), error.code()), (true, None));
        assert_eq!(error.to_string(), LinkError::NotSent { address: "here".into() }.to_string());
    }
}
