//! Which layouts the elements of a queue have.

use super::Redisson;
use super::layout::Layout;
use crate::ledger::{Place, Shape, Show, StoreError};
use crate::link::Conn;

/// Elements at either end of Z whose layout is read.
const ENDS: usize = 50;

impl Redisson {
    /// The layout of the first elements of Z, as far as the first few show it; `None` for an empty one.
    ///
    /// # Errors
    ///
    /// As for [`peek`](super::Ledger::peek).
    pub async fn layout_in_use(&self, conn: &Conn) -> Result<Option<Layout>, StoreError> {
        let page = self.peek(conn, Place::Scheduled, 0, 10, Show::Start(0)).await?;
        Ok(page.seen.iter().find_map(|seen| layout(seen.shape)))
    }

    /// The layouts of the first and last elements of Z, each once: two if elements of both are scheduled, as far as the
    /// ends show.
    ///
    /// # Errors
    ///
    /// As for [`peek`](super::Ledger::peek).
    pub async fn layouts_scheduled(&self, conn: &Conn) -> Result<Vec<Layout>, StoreError> {
        let first = self.peek(conn, Place::Scheduled, 0, ENDS, Show::Start(0)).await?;
        let behind = first.total.saturating_sub(ENDS);
        let last = self.peek(conn, Place::Scheduled, behind, ENDS, Show::Start(0)).await?;
        let mut layouts = Vec::new();
        for layout in first.seen.iter().chain(&last.seen).filter_map(|seen| layout(seen.shape)) {
            if !layouts.contains(&layout) {
                layouts.push(layout);
            }
        }
        Ok(layouts)
    }
}

fn layout(shape: Shape) -> Option<Layout> {
    [Layout::Old, Layout::New].into_iter().find(|layout| shape == Shape::Packed(layout.as_str()))
}
