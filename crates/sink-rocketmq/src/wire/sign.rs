//! Signatures: HMAC-SHA1 over the values of a request's fields, in the order of their names, and its body.

use std::collections::BTreeMap;

use aws_lc_rs::hmac::{self, HMAC_SHA1_FOR_LEGACY_USE_ONLY, Key};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const ACCESS_KEY: &str = "AccessKey";
const SIGNATURE: &str = "Signature";

/// An access key with its secret, as of the connect.
pub(crate) struct RemotingSigner {
    access_key: String,
    key: Key,
}

impl RemotingSigner {
    pub(crate) fn new(access_key: &str, secret: &str) -> RemotingSigner {
        let key = Key::new(HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes());
        RemotingSigner { access_key: access_key.to_owned(), key }
    }

    /// Adds the access key and the signature to the fields of a request.
    pub(super) fn sign(&self, fields: &mut BTreeMap<&'static str, String>, body: &[u8]) {
        fields.insert(ACCESS_KEY, self.access_key.clone());
        let mut context = hmac::Context::with_key(&self.key);
        fields.values().for_each(|value| context.update(value.as_bytes()));
        context.update(body);
        fields.insert(SIGNATURE, STANDARD.encode(context.sign()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_are_signed_in_the_order_of_their_names_with_the_body() {
        let mut fields = BTreeMap::from([("b", "two".to_owned()), ("a", "one".to_owned())]);
        RemotingSigner::new("key", "secret").sign(&mut fields, b"body");
        assert_eq!(fields[ACCESS_KEY], "key");
        // printf keyonetwobody | openssl dgst -sha1 -hmac secret -binary | base64
        assert_eq!(fields[SIGNATURE], "cP4stB4XlbNytykQR8NlS4Ymm8U=");
    }
}
