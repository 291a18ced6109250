//! The host names of AWS's services by region. Pure.

/// Domains of the services, each for the regions whose names begin so. Those that only governments reach are not there.
const DOMAINS: &[(&str, &str)] = &[("cn-", "amazonaws.com.cn"), ("eusc-", "amazonaws.eu"), ("", "amazonaws.com")];
/// Further domains, for hosts with addresses of both kinds.
const DUAL: &[&str] = &["api.aws", "api.amazonwebservices.com.cn", "api.amazonwebservices.eu"];

/// Returns the host of a service in a region: `sqs.eu-west-1.amazonaws.com`.
pub fn host_of(service: &str, region: &str) -> String {
    let domain = DOMAINS.iter().find(|(begin, _)| region.starts_with(begin)).map_or("", |(_, domain)| domain);
    format!("{service}.{region}.{domain}")
}

/// Returns the region in the host name of a service, also in old names (`eu-west-1.queue.amazonaws.com`) and those of
/// VPC endpoints (`vpce-1-2.sqs.eu-west-1.vpce.amazonaws.com`).
pub fn region_of_host(host: &str) -> Option<&str> {
    let mut domains = DOMAINS.iter().map(|(_, domain)| domain).chain(DUAL);
    let names = domains.find_map(|domain| host.strip_suffix(domain)?.strip_suffix('.'))?;
    names.split('.').find(|name| is_region(name))
}

/// Returns whether it is the name of a region: `us-gov-west-1`.
pub fn is_region(name: &str) -> bool {
    let mut parts = name.split('-');
    let word =
        |part: Option<&str>| part.is_some_and(|part| part.len() >= 2 && part.bytes().all(|b| b.is_ascii_lowercase()));
    let number = |part: Option<&str>| part.is_some_and(|part| part.len() <= 2 && part.parse::<u8>().is_ok());
    (3..=5).contains(&parts.clone().count()) && number(parts.next_back()) && parts.all(|part| word(Some(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_its_region() {
        let rows = [
            ("sqs.eu-west-1.amazonaws.com", Some("eu-west-1")),
            ("eu-west-1.queue.amazonaws.com", Some("eu-west-1")),
            ("sqs.cn-north-1.amazonaws.com.cn", Some("cn-north-1")),
            ("sns.us-gov-west-1.amazonaws.com", Some("us-gov-west-1")),
            ("vpce-0ab-1cd.sqs.ap-southeast-2.vpce.amazonaws.com", Some("ap-southeast-2")),
            ("queue.amazonaws.com", None),
            ("sqs.eu-west-1.api.aws", Some("eu-west-1")),
            ("sqs-fips.us-east-1.amazonaws.com", Some("us-east-1")),
            ("sqs.eusc-de-east-1.amazonaws.eu", Some("eusc-de-east-1")),
            ("amazonaws.com", None),
            ("xamazonaws.com", None),
            ("localhost", None),
            ("sqs.eu-west-1.example.com", None),
        ];
        for (host, region) in rows {
            assert_eq!(region_of_host(host), region, "{host}");
        }
        assert_eq!(host_of("sqs", "eu-west-1"), "sqs.eu-west-1.amazonaws.com");
        assert_eq!(host_of("sns", "eusc-de-east-1"), "sns.eusc-de-east-1.amazonaws.eu");
        assert_eq!(host_of("kafka", "cn-north-1"), "kafka.cn-north-1.amazonaws.com.cn");
        for name in ["eu", "eu-1", "eu-west", "EU-west-1", "eu-west-one", "eu--1", "a-b-c-d-e-1", "eu-west-1/x"] {
            assert!(!is_region(name), "{name}");
        }
    }
}
