//! The token that a broker of MSK takes for a login by IAM: a URL that proves who asks for it. Pure.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use secrecy::SecretString;

use crate::{AwsSigner, host_of};

/// Time that a token is valid for, the longest that MSK takes.
const VALID: Duration = Duration::from_secs(900);

/// Returns the token for the clusters of a region, and how long it is valid. The service of `signer` is not looked at.
pub fn msk_token(signer: AwsSigner<'_>) -> (SecretString, Duration) {
    let host = host_of("kafka", signer.region);
    let signer = AwsSigner { service: "kafka-cluster", ..signer };
    let path = signer.presigned(&host, &[("Action", "kafka-cluster:Connect")], VALID);
    let url = format!("https://{host}{path}&User-Agent=delaybridge%2F{}", env!("CARGO_PKG_VERSION"));
    let valid = signer.credentials.left().map_or(VALID, |left| left.min(VALID));
    (URL_SAFE_NO_PAD.encode(url).into(), valid)
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;
    use crate::{AwsCredentials, unix_now};

    /// The expected signature is that of AWS's library for Python, aws-msk-iam-sasl-signer-python 1.0.2, for the same inputs
    /// (`__construct_auth_token` with its clock set to this time). Only `User-Agent` is another.
    #[test]
    fn a_token_is_a_signed_url_that_ends_with_its_credentials() {
        let credentials =
            AwsCredentials::new("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", None, None).unwrap();
        let signer = AwsSigner { credentials: &credentials, service: "", region: "eu-west-1", at: 1_795_610_096 };
        let (token, valid) = msk_token(signer);
        let url = String::from_utf8(URL_SAFE_NO_PAD.decode(token.expose_secret()).unwrap()).unwrap();
        let end = "&X-Amz-Signature=a820cc88ec4382ef62c4a8a07eb9fe2c336d7beb99f9bd8fd3d9877648387e50\
                   &User-Agent=delaybridge%2F0.1.0";
        assert!(url.starts_with("https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect&"), "{url}");
        assert!(url.ends_with(end), "{url}");
        assert_eq!(valid, VALID);
        let short = AwsCredentials::new("a", "s", None, Some(unix_now() + 60)).unwrap();
        assert!(msk_token(AwsSigner { credentials: &short, ..signer }).1 <= Duration::from_secs(60));
    }
}
