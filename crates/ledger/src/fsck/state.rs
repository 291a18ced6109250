//! Pauses that cannot be read.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;

use super::{Check, Fault, Found, Repair, Suspect, script};
use crate::error::StoreError;
use crate::handle::Ledger;
use crate::pause::{Pause, Subject};
use delaybridge_link::{Conn, Script};

static FIELD: LazyLock<Script> = LazyLock::new(|| script("fsck_field", include_str!("scripts/field.lua")));

impl Ledger {
    pub(super) async fn look_at_pauses(
        &self,
        conn: &Conn,
        sinks: &[Arc<str>],
        found: &mut Found<'_>,
    ) -> Result<(), StoreError> {
        let of_sinks = sinks.iter().map(|sink| Subject::Sink(sink).field());
        let fields: Vec<String> = std::iter::once(Subject::Queue.field()).chain(of_sinks).collect();
        let mut command = redis::cmd("HMGET");
        command.arg(&self.keys.state[..]).arg(&fields);
        let values: Vec<Option<Vec<u8>>> = conn.query(&command).await?;
        for (field, value) in fields.into_iter().zip(values) {
            let Some(value) = value.filter(|value| !Pause::is_readable(value)) else { continue };
            let args = vec![Bytes::from(field.clone()), Bytes::from(value), Bytes::from(Pause::unknown())];
            let check = Check::new(&FIELD, vec![self.keys.state.clone()], args);
            found.add(Suspect::new(Fault::PauseUnreadable, format!("field {field}"), Repair::Script, check));
        }
        Ok(())
    }
}
