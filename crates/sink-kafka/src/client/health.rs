//! Errors of the client's connections, which it says beside its reports.
//!
//! A record that cannot be delivered because of a wrong password or certificate is only ever reported as timed out; the
//! reason is reported once, to the error callback. It is kept here, for the records that have it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::sync::watch;

use crate::errors;
use delaybridge_core::clock::Instant;
use delaybridge_core::message::{Class, Failure};

/// A reason for which nothing can be delivered until a person fixes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConnectionTrouble {
    pub(super) code: Code,
    /// librdkafka's message: broker, event, state.
    pub(super) text: String,
}

impl ConnectionTrouble {
    pub(super) fn failure(&self, what: &str) -> Failure {
        let advice = errors::advice(self.code).map(|advice| format!("; {advice}")).unwrap_or_default();
        // The advice is ours and short; the broker's message comes last and is cut.
        let text = format!("{what}: {}{advice}", shortened(&self.text));
        let class = if errors::needs_a_person(self.code) { Class::TargetPermanent } else { Class::Transient };
        Failure::new(class, errors::name(self.code), text)
    }
}

/// Returns the beginning of a text; messages of OpenSSL and some brokers are long.
fn shortened(text: &str) -> &str {
    const LONGEST: usize = 240;
    let end = (0..=LONGEST.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}

/// Returns the text, where librdkafka takes a broker that answers nothing for a very old one.
fn silent(text: &str) -> String {
    match text.find("probably due to broker version") {
        None => text.to_owned(),
        Some(at) => {
            let text = text[..at].trim_end_matches([' ', ':']);
            format!(
                "{text}: the broker accepts connections and does not answer; it is frozen or overloaded, or the port is not Kafka's"
            )
        }
    }
}

/// Guesses the reason of a disconnect in the middle of a greeting. A broker that goes down does the same.
fn hint(text: &str) -> Option<&'static str> {
    if !text.contains("Disconnected") {
        None
    } else if text.contains("in state APIVERSION_QUERY") {
        Some("a listener that wants TLS hangs up like this")
    } else if text.contains("in state SSL_HANDSHAKE") {
        Some("a listener without TLS hangs up like this")
    } else {
        None
    }
}

/// Returns whether a login came when none is accepted: less than a second after the one before on its connection
/// (`KafkaChannel.maybeBeginServerReauthentication`), or at a listener that wants no login.
fn is_untimely_login(code: Code, text: &str) -> bool {
    code == Code::Authentication && text.contains("Request not valid in current SASL state")
}

/// Longest time of untimely logins without an answer. A client whose token runs out logs in at ever shorter intervals, and begins
/// again with each new connection.
const UNTIMELY: Duration = Duration::from_secs(30);

/// The state of one producer's connections.
#[derive(Debug)]
pub(super) struct ProducerHealth {
    state: Mutex<HealthState>,
    /// Nothing is noted since the last answer, so that a confirmed record need not look.
    clean: AtomicBool,
    /// A broker has refused the login, whatever the others do.
    login_refused: AtomicBool,
    /// This producer will deliver nothing more: a new one is to be made.
    finished: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct HealthState {
    /// The latest reason that a person must fix.
    trouble: Option<ConnectionTrouble>,
    /// No broker is connected, as far as the client has reported.
    all_down: bool,
    /// librdkafka's message about the latest error of a connection.
    last: Option<String>,
    /// A broker has answered: it accepts the login.
    admitted: bool,
    /// The first untimely login since then.
    untimely: Option<Instant>,
}

impl ProducerHealth {
    pub(super) fn new() -> ProducerHealth {
        ProducerHealth {
            state: Mutex::default(),
            // The first answer is noted.
            clean: AtomicBool::new(false),
            login_refused: AtomicBool::new(false),
            finished: watch::Sender::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, HealthState> {
        self.state.lock()
    }

    /// Takes in a log line about a connection that failed or was closed.
    pub(super) fn lost(&self, line: &str) {
        // `[thrd:NAME]: ` says which of librdkafka's threads wrote it.
        let text =
            line.split_once("]: ").filter(|(thread, _)| thread.starts_with("[thrd:")).map_or(line, |(_, text)| text);
        self.clean.store(false, Ordering::Release);
        self.state().last = Some(silent(text));
    }

    /// Records an error that librdkafka reports.
    pub(super) fn error(&self, code: Code, text: &str) {
        let code = errors::cause(code, text);
        let mut state = self.state();
        self.clean.store(false, Ordering::Release);
        // The token was renewed late: the client connects again, and logs in as it did before.
        if is_untimely_login(code, text) && state.admitted {
            let now = Instant::now();
            if now.since(*state.untimely.get_or_insert(now)) < UNTIMELY {
                state.last = Some(text.to_owned());
                return;
            }
        }
        if matches!(code, Code::Authentication | Code::SaslAuthenticationFailed) {
            self.login_refused.store(true, Ordering::Release);
        }
        match code {
            Code::AllBrokersDown => state.all_down = true,
            _ if errors::needs_a_person(code) => {
                state.trouble = Some(ConnectionTrouble { code, text: text.to_owned() });
            }
            Code::Fatal => {}
            _ => state.last = Some(silent(text)),
        }
        // No broker accepts the login, and a new producer reads password and certificates again. An error that is fatal to
        // librdkafka ends the producer in any case.
        let locked_out = state.all_down && state.trouble.is_some();
        drop(state);
        if locked_out || code == Code::Fatal {
            self.finished.send_replace(true);
        }
    }

    /// Returns whether a broker has refused the login since the producer was made.
    pub(super) fn is_login_refused(&self) -> bool {
        self.login_refused.load(Ordering::Acquire)
    }

    /// Ends the use of a password that a broker refused, because there is another one: the next producer has it.
    pub(super) fn outdated(&self) {
        self.finished.send_replace(true);
    }

    /// Records why librdkafka has given the producer up.
    pub(super) fn fatal(&self, code: Code, text: String) {
        self.state().trouble.get_or_insert(ConnectionTrouble { code, text });
        self.clean.store(false, Ordering::Release);
        self.finished.send_replace(true);
    }

    /// Takes in that a broker answered: whatever was wrong is not any more.
    pub(super) fn answered(&self) {
        // Read first: every confirmed record asks, and a write would take the line from the other threads.
        if !self.clean.load(Ordering::Acquire) && !self.clean.swap(true, Ordering::AcqRel) && !self.is_finished() {
            *self.state() = HealthState { admitted: true, ..HealthState::default() };
        }
    }

    /// Returns whether a new producer is to be made.
    pub(super) fn is_finished(&self) -> bool {
        *self.finished.borrow()
    }

    /// Ends when a new producer is to be made.
    pub(super) async fn finished(&self) {
        // The sender lives as long as `self`.
        let _ = self.finished.subscribe().wait_for(|finished| *finished).await;
    }

    /// Returns the reason that a person must fix.
    pub(super) fn trouble(&self) -> Option<ConnectionTrouble> {
        self.state().trouble.clone()
    }

    /// Returns whether no broker is connected, as far as the client has reported.
    pub(super) fn all_down(&self) -> bool {
        self.state().all_down
    }

    /// Returns the latest error of a connection, with what it may mean.
    pub(super) fn last(&self) -> Option<String> {
        let state = self.state();
        let text = state.last.as_deref()?;
        let hint = hint(text).map(|hint| format!("; {hint}")).unwrap_or_default();
        Some(format!("{}{hint}", shortened(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: &str = "h:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused";
    const LOGIN: &str = "h:1/bootstrap: SASL authentication error: Invalid username or password";

    #[test]
    fn a_broker_that_does_not_answer_is_not_called_old() {
        let health = ProducerHealth::new();
        health.lost(
            "[thrd:h:1/bootstrap]: h:1/bootstrap: ApiVersionRequest failed: Local: Timed out: probably due to broker version < 0.10 \
             (see api.version.request configuration) (after 10002ms in state APIVERSION_QUERY)",
        );
        let last = health.last().unwrap();
        assert!(
            last.starts_with("h:1/bootstrap: ApiVersionRequest failed: Local: Timed out: the broker accepts"),
            "{last}"
        );
        assert!(!last.contains("0.10"), "{last}");
    }

    #[test]
    fn an_outage_is_no_problem_that_a_person_must_fix() {
        let health = ProducerHealth::new();
        health.error(Code::BrokerTransportFailure, REFUSED);
        health.error(Code::AllBrokersDown, "1/1 brokers are down");
        assert_eq!(health.trouble(), None);
        assert!(health.all_down() && !health.is_finished());
        assert_eq!(health.last().as_deref(), Some(REFUSED));
    }

    #[test]
    fn a_refused_login_at_every_broker_finishes_the_producer() {
        for reversed in [false, true] {
            let health = ProducerHealth::new();
            let mut errors = [(Code::Authentication, LOGIN), (Code::AllBrokersDown, "1/1 brokers are down")];
            if reversed {
                errors.reverse();
            }
            health.error(errors[0].0, errors[0].1);
            assert!(!health.is_finished(), "another broker may let us in");
            health.error(errors[1].0, errors[1].1);
            assert!(health.is_finished());
            let failure = health.trouble().unwrap().failure("send to topic t");
            assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "SASL_AUTHENTICATION_FAILED"));
            assert!(failure.message.contains("Invalid username or password; correct `username`"), "{failure}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_untimely_login_is_trouble_where_none_was_ever_accepted_or_when_it_lasts() {
        const UNTIMELY_LOGIN: &str = "sasl_plaintext://h:1/1: SASL OAUTHBEARER mechanism handshake failed: Broker: Request not \
            valid in current SASL state: broker's supported mechanisms:  (after 8ms in state AUTH_HANDSHAKE)";
        let _clock = delaybridge_core::clock::follow_tokio();
        let health = ProducerHealth::new();
        health.error(Code::Authentication, UNTIMELY_LOGIN);
        assert!(health.trouble().is_some() && health.is_login_refused(), "a listener that wants no login");

        let health = ProducerHealth::new();
        for _ in 0..2 {
            health.answered();
            for _ in 0..2 {
                health.error(Code::Authentication, UNTIMELY_LOGIN);
                tokio::time::advance(UNTIMELY / 2).await;
            }
            health.error(Code::AllBrokersDown, "1/1 brokers are down");
            assert_eq!(health.trouble(), None);
            assert!(!health.is_login_refused() && !health.is_finished());
            assert_eq!(health.last().as_deref(), Some(UNTIMELY_LOGIN));
        }
        health.error(Code::Authentication, UNTIMELY_LOGIN);
        assert!(health.trouble().is_some() && health.is_login_refused() && health.is_finished(), "no answer for long");
    }

    #[test]
    fn one_broker_that_refuses_the_login_is_remembered_while_the_others_answer() {
        let health = ProducerHealth::new();
        assert!(!health.is_login_refused());
        health.error(Code::Authentication, LOGIN);
        health.answered();
        assert!(health.is_login_refused() && !health.is_finished());
        health.outdated();
        assert!(health.is_finished());
    }

    #[test]
    fn a_certificate_that_the_broker_refuses_is_trouble() {
        let health = ProducerHealth::new();
        let alert =
            "ssl://h:1: Receive failed: error:0A000412:SSL routines::sslv3 alert bad certificate: SSL alert number 42";
        health.error(Code::BrokerTransportFailure, alert);
        assert_eq!(health.trouble(), Some(ConnectionTrouble { code: Code::SSL, text: alert.to_owned() }));
    }

    #[test]
    fn a_connection_that_ends_in_a_handshake_is_no_refused_login_and_no_trouble_with_certificates() {
        let health = ProducerHealth::new();
        health.error(Code::SSL, "ssl://h:1/1: SSL handshake failed: SSL transport error: Connection timed out");
        let ended = "sasl_plaintext://h:1/1: SASL OAUTHBEARER mechanism handshake failed: Local: Broker transport failure: \
            broker's supported mechanisms: (n/a) (after 0ms in state DOWN)";
        health.error(Code::Authentication, ended);
        health.error(Code::AllBrokersDown, "1/1 brokers are down");
        assert_eq!(health.trouble(), None);
        assert!(!health.is_login_refused() && !health.is_finished());
        assert_eq!(health.last().as_deref(), Some(ended));
        let refused = ended.replace("Local: Broker transport failure", "Broker: Unsupported SASL mechanism");
        health.error(Code::Authentication, &refused);
        assert!(health.is_login_refused() && health.is_finished());
    }

    #[test]
    fn a_disconnect_that_is_only_logged_is_remembered() {
        let health = ProducerHealth::new();
        health.lost("[thrd:h:1/bootstrap]: h:1/bootstrap: Disconnected: broker might require SASL authentication");
        let expected = "h:1/bootstrap: Disconnected: broker might require SASL authentication";
        assert_eq!(health.last().as_deref(), Some(expected));
        health.lost("no thread");
        assert_eq!(health.last().as_deref(), Some("no thread"));
    }

    #[test]
    fn an_answer_clears_what_was_wrong() {
        let health = ProducerHealth::new();
        health.error(Code::SSL, "h:1: SSL handshake failed");
        health.answered();
        assert_eq!(health.trouble(), None);
        health.error(Code::AllBrokersDown, "1/1 brokers are down");
        assert!(!health.is_finished(), "the trouble was over");
    }

    #[tokio::test]
    async fn what_is_fatal_finishes_the_producer_and_its_reason_is_kept() {
        let health = ProducerHealth::new();
        health.error(Code::Fatal, "Fatal error: Cluster authorization failed");
        health.finished().await;
        health.fatal(Code::ClusterAuthorizationFailed, "Failed to acquire idempotence PID".to_owned());
        health.answered();
        let failure = health.trouble().unwrap().failure("send to topic t");
        assert_eq!((failure.class, failure.code), (Class::TargetPermanent, "CLUSTER_AUTHORIZATION_FAILED"));
    }

    #[test]
    fn a_long_story_is_cut_before_the_advice() {
        let trouble = ConnectionTrouble { code: Code::SSL, text: "ä".repeat(1000) };
        let failure = trouble.failure("send to topic t");
        assert!(failure.message.ends_with("the client certificate"), "{failure}");
    }
}
