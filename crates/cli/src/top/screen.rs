//! What the screen shows, and what each key makes of it. Pure: asks no server and draws nothing.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use delaybridge_ops::operations::ListQueues;
use delaybridge_ops::overview::{MOST, Overview, QueueRow, SinkList};
use delaybridge_ops::queue_order::{QueueFilter, QueueOrder};
use delaybridge_ops::trouble::{Standing, arrange};

/// The current meaning of the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScreenMode {
    List,
    Queue,
    /// The filter is written.
    Filter,
    /// Whether a queue is to be paused or resumed.
    Confirm(KeyAction),
}

/// The action that a key asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyAction {
    Leave,
    Refresh,
    Pause(String),
    Resume(String),
}

impl KeyAction {
    /// Returns the queue that it is about.
    pub(super) fn queue(&self) -> Option<&str> {
        match self {
            KeyAction::Pause(queue) | KeyAction::Resume(queue) => Some(queue),
            KeyAction::Leave | KeyAction::Refresh => None,
        }
    }
}

/// The screen.
#[derive(Debug)]
pub(super) struct Screen {
    /// The name of the server that is asked.
    pub(super) name: String,
    pub(super) found: Overview,
    pub(super) sinks: Option<SinkList>,
    pub(super) sort: QueueOrder,
    pub(super) only: QueueFilter,
    pub(super) filter: String,
    /// The queue after which the page begins; `None` for the first page.
    pub(super) after: Option<String>,
    /// The queue under the cursor, by its name: the order may change.
    pub(super) at: Option<String>,
    pub(super) mode: ScreenMode,
    /// The outcome of the last key.
    pub(super) told: String,
    /// Why the last look failed: what is shown is old.
    pub(super) lost: Option<String>,
    /// Why the daemon of the configuration added nothing to it.
    pub(super) without_daemon: Option<String>,
}

impl Screen {
    pub(super) fn new(name: String) -> Screen {
        Screen {
            name,
            found: Overview::default(),
            sinks: None,
            sort: QueueOrder::Trouble,
            only: QueueFilter::All,
            filter: String::new(),
            after: None,
            at: None,
            mode: ScreenMode::List,
            told: String::new(),
            lost: None,
            without_daemon: None,
        }
    }

    /// Returns the page of queues to ask for.
    pub(super) fn wanted(&self) -> ListQueues {
        let after = self.after.clone();
        let like = self.filter.clone();
        ListQueues { after, like, limit: MOST, sort: self.sort, show: self.only }
    }

    /// Goes to another page, which has to be read.
    fn turn_to(&mut self, after: Option<String>) -> Option<KeyAction> {
        self.after = after;
        self.keep_cursor();
        Some(KeyAction::Refresh)
    }

    /// Puts the cursor on the first queue, where its own is not shown.
    fn keep_cursor(&mut self) {
        if self.current().is_none() {
            self.at = self.rows().first().map(|row| row.state.queue.clone());
        }
    }

    /// A look came back, without the daemon of the configuration for this reason.
    pub(super) fn saw(&mut self, look: Result<(Overview, Option<SinkList>), String>, without_daemon: Option<String>) {
        self.without_daemon = without_daemon;
        match look {
            Ok((found, sinks)) => (self.found, self.sinks, self.lost) = (found, sinks, None),
            Err(problem) => self.lost = Some(problem),
        }
        self.keep_cursor();
    }

    /// Shows the outcome of a key.
    pub(super) fn tell(&mut self, told: String) {
        self.told = told;
    }

    /// Returns the queues that are shown, in their order.
    pub(super) fn rows(&self) -> Vec<&QueueRow> {
        let wanted = self.filter.to_lowercase();
        let fits = |row: &&QueueRow| row.state.queue.to_lowercase().contains(&wanted);
        let standing = |row: &&QueueRow| Standing::of(row, self.sinks.as_ref());
        let mut rows: Vec<_> =
            self.found.queues.iter().filter(fits).filter(|row| self.only.takes(&standing(row))).collect();
        arrange(&mut rows, self.sort, |row| (&row.state.queue, standing(row)));
        rows
    }

    /// Returns the queue under the cursor.
    pub(super) fn current(&self) -> Option<&QueueRow> {
        let at = self.at.as_ref()?;
        self.rows().into_iter().find(|row| row.state.queue == *at)
    }

    /// Returns the cursor's place in the list.
    pub(super) fn place(&self) -> Option<usize> {
        let at = self.at.as_ref()?;
        self.rows().iter().position(|row| row.state.queue == *at)
    }

    fn step(&mut self, by: isize) {
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        let to = self.place().unwrap_or(0).saturating_add_signed(by).min(last);
        self.at = rows.get(to).map(|row| row.state.queue.clone());
    }

    /// A key was pressed.
    pub(super) fn key(&mut self, key: KeyEvent) -> Option<KeyAction> {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Some(KeyAction::Leave);
        }
        match std::mem::replace(&mut self.mode, ScreenMode::List) {
            ScreenMode::Filter => self.write(key.code),
            ScreenMode::Confirm(action) => matches!(key.code, KeyCode::Char('y' | 'Y')).then_some(action),
            mode => {
                self.mode = mode;
                self.command(key.code)
            }
        }
    }

    /// A key while the filter is written.
    fn write(&mut self, code: KeyCode) -> Option<KeyAction> {
        match code {
            KeyCode::Enter => return self.turn_to(None),
            KeyCode::Esc => {
                self.filter.clear();
                return self.turn_to(None);
            }
            KeyCode::Backspace => {
                self.filter.pop();
            }
            KeyCode::Char(letter) if self.filter.chars().count() < 64 => self.filter.push(letter),
            _ => {}
        }
        self.mode = ScreenMode::Filter;
        self.keep_cursor();
        None
    }

    fn command(&mut self, code: KeyCode) -> Option<KeyAction> {
        self.told.clear();
        match code {
            KeyCode::Char('q') | KeyCode::Esc if self.mode == ScreenMode::Queue => self.mode = ScreenMode::List,
            KeyCode::Char('q') => return Some(KeyAction::Leave),
            KeyCode::Esc => {
                self.filter.clear();
                return self.turn_to(None);
            }
            KeyCode::Char('n') => {
                if let Some(next) = self.found.next.clone() {
                    return self.turn_to(Some(next));
                }
            }
            KeyCode::Char('b') if self.after.is_some() => return self.turn_to(None),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::PageDown => self.step(10),
            KeyCode::PageUp => self.step(-10),
            KeyCode::Home => self.step(isize::MIN / 2),
            KeyCode::End => self.step(isize::MAX / 2),
            KeyCode::Enter => self.mode = ScreenMode::Queue,
            KeyCode::Char('/') => self.mode = ScreenMode::Filter,
            KeyCode::Char('s') => {
                self.sort = next(&QueueOrder::ALL, self.sort);
                return self.turn_to(None);
            }
            KeyCode::Char('t') => {
                self.only = next(&QueueFilter::ALL, self.only);
                return self.turn_to(None);
            }
            KeyCode::Char('r') => return Some(KeyAction::Refresh),
            KeyCode::Char('p') => {
                if let Some(row) = self.current() {
                    let paused = row.state.paused.iter().any(|pause| pause.sink.is_none());
                    let queue = row.state.queue.clone();
                    self.mode =
                        ScreenMode::Confirm(if paused { KeyAction::Resume(queue) } else { KeyAction::Pause(queue) });
                }
            }
            _ => {}
        }
        None
    }
}

/// Returns the value after this one; the first after the last.
fn next<T: Copy + PartialEq>(all: &[T], now: T) -> T {
    let at = all.iter().position(|value| *value == now).unwrap_or(0);
    all[(at + 1) % all.len()]
}
