//! Rights of users, for a cluster that checks them ([`KafkaOptions::acl`]).

use super::Kafka;
#[cfg(doc)]
use super::KafkaOptions;
use super::admin::code;
use super::wire::{Answer, Api, Request, call};
use crate::error::{Error, Result};

const DESCRIBE_ACLS: Api = Api { key: 29, version: 1, name: "describe rights" };
const CREATE_ACLS: Api = Api { key: 30, version: 1, name: "add rights" };
const DELETE_ACLS: Api = Api { key: 31, version: 1, name: "remove rights" };

/// The resource of a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource<'a> {
    /// One topic, or all with `*`.
    Topic(&'a str),
    /// One consumer group, or all with `*`.
    Group(&'a str),
    /// The cluster itself, which idempotent producers of older clients require.
    Cluster,
    /// One transactional id, or all with `*`.
    TransactionalId(&'a str),
}

impl Resource<'_> {
    fn parts(&self) -> (i8, &str) {
        match self {
            Resource::Topic(name) => (2, name),
            Resource::Group(name) => (3, name),
            Resource::Cluster => (4, "kafka-cluster"),
            Resource::TransactionalId(name) => (5, name),
        }
    }
}

/// The operation that a right allows. In Kafka, the right to write or read includes the right to describe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
#[expect(missing_docs, reason = "named as Kafka names them")]
pub enum Operation {
    All = 2,
    Read = 3,
    Write = 4,
    Create = 5,
    Describe = 8,
    IdempotentWrite = 12,
}

const LITERAL: i8 = 3;
const ALLOW: i8 = 3;

impl Kafka {
    /// Allows a user of the SASL listeners (`alice`), or a principal with its kind (`User:CN=client`), `operations`.
    pub fn add_acl(&self, principal: &str, resource: Resource<'_>, operations: &[Operation]) -> Result<()> {
        let (principal, (kind, name)) = (with_kind(principal), resource.parts());
        let body = Request::default().array(operations, |request, &operation| {
            request.i8(kind).string(name).i8(LITERAL).string(&principal).string("*").i8(operation as i8).i8(ALLOW)
        });
        self.change(CREATE_ACLS, &body, code::NONE, |answer| {
            answer.i32()?;
            answer.array(|answer| Ok((answer.i16()?, answer.string()?)))
        })?;
        self.until_all_nodes(&format!("{principal} has rights on {name}"), |port| {
            Ok(operations.iter().all(|&operation| has_acl(port, &principal, resource, operation).unwrap_or(false)))
        })
    }

    /// Removes a right that [`Kafka::add_acl`] added.
    pub fn remove_acl(&self, principal: &str, resource: Resource<'_>, operations: &[Operation]) -> Result<()> {
        let principal = with_kind(principal);
        let body = Request::default()
            .array(operations, |request, &operation| acl_filter(request, &principal, resource, operation));
        self.change(DELETE_ACLS, &body, code::NONE, |answer| {
            answer.i32()?;
            answer.array(|answer| {
                let result = (answer.i16()?, answer.string()?);
                answer.array(|answer| {
                    answer.i16()?;
                    answer.string()?;
                    acl(answer)
                })?;
                Ok(result)
            })
        })?;
        self.until_all_nodes(&format!("{principal} has lost its rights on {}", resource.parts().1), |port| {
            Ok(operations.iter().all(|&operation| has_acl(port, &principal, resource, operation).is_ok_and(|has| !has)))
        })
    }
}

fn with_kind(principal: &str) -> String {
    if principal.contains(':') { principal.to_owned() } else { format!("User:{principal}") }
}

fn acl_filter(request: Request, principal: &str, resource: Resource<'_>, operation: Operation) -> Request {
    let (kind, name) = resource.parts();
    let request = request.i8(kind).string(name).i8(LITERAL).string(principal).null_string();
    request.i8(operation as i8).i8(ALLOW)
}

/// Reads principal, host, operation and permission.
fn acl(answer: &mut Answer) -> Result<()> {
    answer.i8()?;
    answer.string()?;
    answer.i8()?;
    answer.string()?;
    answer.string()?;
    answer.i8()?;
    answer.i8()?;
    Ok(())
}

fn has_acl(port: u16, principal: &str, resource: Resource<'_>, operation: Operation) -> Result<bool> {
    let body = acl_filter(Request::default(), principal, resource, operation);
    let mut answer = call(port, DESCRIBE_ACLS, &body)?;
    answer.i32()?;
    let code = answer.i16()?;
    let text = answer.string()?;
    if code != code::NONE {
        return Err(Error::new(format!("describe rights: Kafka's error {code}: {}", text.unwrap_or_default())));
    }
    // The number of resources with a matching right; the rest repeats the request.
    Ok(answer.i32()? > 0)
}
