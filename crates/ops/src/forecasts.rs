//! Forecasts of every queue, side by side.

use futures_util::future::join_all;
use serde::Serialize;

use super::error::{Error, QueueError};
use super::forecast::Forecast;
use super::operation::Place;
use super::operations::MakeForecast;
use super::overview::QueueRow;
use super::queues::queues;

/// Queues that are read at the same time.
const SIDE_BY_SIDE: usize = 16;

/// Forecasts of several queues.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Forecasts {
    /// Queues that hold anything.
    pub queues: Vec<Forecast>,
    /// Queues that could not be read.
    pub errors: Vec<QueueError>,
}

/// Makes a forecast of every queue that holds anything, each as one step.
pub async fn forecasts(place: &Place, ask: &MakeForecast) -> Result<Forecasts, Error> {
    let queues = queues(place).await?;
    let mut all = Forecasts { queues: Vec::new(), errors: queues.errors };
    let holds = |row: &&QueueRow| {
        let s = &row.state;
        [s.scheduled, s.due, s.in_flight, s.retry, s.ready].iter().any(|n| *n > 0)
    };
    let some: Vec<&str> = queues.queues.iter().filter(holds).map(|row| &row.state.queue[..]).collect();
    for some in some.chunks(SIDE_BY_SIDE) {
        for (queue, found) in
            some.iter().zip(join_all(some.iter().map(async |queue| place.call(&ask.whole(queue)).await)).await)
        {
            match found {
                Ok(found) => all.queues.push(found),
                Err(error) => all.errors.push(QueueError { queue: (*queue).to_owned(), message: error.message }),
            }
        }
    }
    Ok(all)
}
