//! The screen, drawn. Colours are the terminal's own, so they fit its scheme; words say the same as they do.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row as Cells, Table, TableState, Wrap};

use super::screen::{KeyAction, Screen, ScreenMode};
use crate::show::{absolute, relative};
use delaybridge_ops::content::escaped;
use delaybridge_ops::overview::{QueueRow, SinkList, Sums, TopicInput};
use delaybridge_ops::plural::{count, duration};

const BAD: Style = Style::new().fg(Color::Red);
const WARN: Style = Style::new().fg(Color::Yellow);
const GOOD: Style = Style::new().fg(Color::Green);
const QUIET: Style = Style::new().add_modifier(Modifier::DIM);
const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let sinks = screen.sinks.as_ref().map_or(0, |sinks| sinks.sinks.len());
    let lines = sinks.min(6) + screen.found.inputs.len().min(3);
    let below = u16::try_from(lines).unwrap_or(9) + u16::from(lines > 0);
    let [head, body, of_sinks, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Min(3),
        Constraint::Length(if screen.mode == ScreenMode::Queue { 0 } else { below }),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(title(screen, head.width)), head);
    match (&screen.mode, screen.current()) {
        (ScreenMode::Queue, Some(row)) => queue(frame, body, screen, row),
        _ => list(frame, body, screen),
    }
    sinks_of(frame, of_sinks, screen);
    frame.render_widget(Paragraph::new(keys(screen)), foot);
}

fn title(screen: &Screen, width: u16) -> Vec<Line<'static>> {
    let sums = screen.found.sums();
    let known = |of: fn(&Sums) -> i64| sums.as_ref().map_or_else(|| "-".to_owned(), |sums| of(sums).to_string());
    let dead = sums.as_ref().is_some_and(|sums| sums.dead > 0);
    let mut second = vec![
        Span::raw(format!(
            "scheduled {}  due {}  in flight {}  retry {}  ",
            known(|sums| sums.scheduled),
            known(|sums| sums.due),
            known(|sums| sums.in_flight),
            known(|sums| sums.retry),
        )),
        Span::styled(format!("dead {}", known(|sums| sums.dead)), if dead { BAD } else { Style::new() }),
    ];
    if !screen.found.errors.is_empty() {
        second.push(Span::styled(format!("  not read {}", screen.found.errors.len()), BAD));
    }
    let mut first =
        vec![Span::styled("delaybridge top", STRONG), Span::raw(format!("  {}  {}", screen.name, queues(screen)))];
    let fit = columns(name_width(screen, width), width);
    let hidden: Vec<_> = (0..COLUMNS.len()).filter(|at| !fit.contains(at)).map(|at| COLUMNS[at].0).collect();
    if screen.mode == ScreenMode::List && !hidden.is_empty() {
        first.push(Span::styled(format!("  no room for {}", hidden.join(", ")), QUIET));
    }
    for clock in &screen.found.clocks {
        first.push(Span::styled(format!("  clock of the machine {}", escaped(&clock.line())), WARN));
    }
    if let Some(problem) = &screen.without_daemon {
        first.push(Span::styled(format!("  Redis alone: {}", escaped(problem)), WARN));
    }
    if let Some(problem) = &screen.lost {
        first.push(Span::styled(format!("  old: {}", escaped(problem)), BAD));
    }
    vec![Line::from(first), Line::from(second)]
}

/// Returns the number of queues that are read, and of those that there are.
fn queues(screen: &Screen) -> String {
    let read = screen.found.queues.len();
    let more = screen.after.is_some() || screen.found.next.is_some();
    match screen.found.total.filter(|_| more) {
        Some(total) => format!("{read} of {}, and their sums:", count(total, "queue")),
        None => count(read, "queue"),
    }
}

fn number(n: i64, style: Style) -> Cell<'static> {
    let text = Line::from(n.to_string()).right_aligned();
    Cell::from(text).style(if n == 0 { QUIET } else { style })
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

fn late(ms: Option<f64>) -> String {
    match ms {
        None => "-".to_owned(),
        Some(ms) if ms < 10_000.0 => format!("{ms:.0}ms"),
        Some(ms) => duration(ms as u64),
    }
}

/// Why nothing moves, the most important reason.
fn obstacle(row: &QueueRow, sinks: Option<&SinkList>) -> (String, Style) {
    let held = row.here.as_ref().and_then(|here| here.held.as_ref());
    let mut of_queue = sinks.iter().flat_map(|sinks| &sinks.sinks).filter(|sink| row.state.sinks.contains(&sink.sink));
    let bad = of_queue.find(|sink| sink.is_in_trouble());
    let input = row.here.as_ref().and_then(|here| here.input.as_ref()).filter(|input| input.is_in_trouble());
    match (held, row.state.paused.first(), bad) {
        (None, None, None) if input.is_some() => (input.map(|input| escaped(&input.words())).unwrap_or_default(), BAD),
        (Some(hold), ..) => (format!("held: {}", escaped(&hold.reason)), BAD),
        (None, Some(pause), _) => (escaped(&pause.line(row.state.now_ms)), WARN),
        (None, None, Some(sink)) => {
            let why = sink.reason.as_deref().unwrap_or_default();
            (format!("sink {} {}: {}", sink.sink, sink.state, escaped(why)), BAD)
        }
        (None, None, None) if row.state.mode != "deliver" => (row.state.mode.clone(), QUIET),
        (None, None, None) => {
            row.behind().or_else(|| row.absurd()).map_or((String::new(), Style::new()), |why| (why, WARN))
        }
    }
}

/// Head and width of each column.
const COLUMNS: [(&str, u16); 11] = [
    ("QUEUE", 5),
    ("SCHEDULED", 9),
    ("DUE", 8),
    ("IN FLIGHT", 9),
    ("RETRY", 7),
    ("DEAD", 7),
    ("p50", 7),
    ("p99", 7),
    ("RATE/s", 8),
    ("OVERDUE", 8),
    ("WHY NOT", 24),
];
/// The columns that make room for the others, the least important one first. Name and reason always stay.
const GO_FIRST: [usize; 9] = [6, 8, 7, 1, 3, 4, 9, 5, 2];
const WHY_NOT: usize = 10;
/// Most lines of a reason.
const REASON_LINES: usize = 3;

/// Returns the width of the first column: names make room for the reasons.
fn name_width(screen: &Screen, width: u16) -> u16 {
    let longest = screen.rows().iter().map(|row| row.state.queue.chars().count()).max().unwrap_or(5).clamp(5, 40);
    let room = width.saturating_sub(COLUMNS[WHY_NOT].1 + 1).max(8);
    u16::try_from(longest).unwrap_or(40).min(room)
}

/// Returns the text in this many letters: its begin and its end, which tell most names apart.
fn shortened(text: &str, width: u16) -> String {
    let (letters, width): (Vec<char>, usize) = (text.chars().collect(), width.into());
    if letters.len() <= width {
        return text.to_owned();
    }
    let end = width.saturating_sub(1) / 2;
    let begin = width.saturating_sub(end + 1);
    letters[..begin].iter().chain(&['…']).chain(&letters[letters.len() - end..]).collect()
}

/// Returns the text in lines of this width, broken at blanks where there are any; what is too long for them ends with
/// `…`.
fn wrapped(text: &str, width: u16) -> Vec<String> {
    let width = usize::from(width).max(1);
    let mut lines = vec![String::new()];
    let mut rest: Vec<char> = text.chars().collect();
    while !rest.is_empty() {
        let fits = rest.len() <= width;
        if !fits && lines.len() == REASON_LINES {
            let last: String = rest[..width - 1].iter().chain(&['…']).collect();
            lines.push(last);
            break;
        }
        let blank = rest.iter().take(width + 1).rposition(|letter| *letter == ' ').filter(|at| *at > 0);
        let end = if fits { rest.len() } else { blank.unwrap_or(width) };
        lines.push(rest.drain(..end).collect::<String>());
        let blanks = rest.iter().take_while(|letter| **letter == ' ').count();
        rest.drain(..blanks);
    }
    if lines.len() > 1 {
        lines.remove(0);
    }
    lines
}

/// Returns the columns that fit: half of a number says something else.
fn columns(name: u16, width: u16) -> Vec<usize> {
    let mut all: Vec<usize> = (0..COLUMNS.len()).collect();
    let needs = |all: &[usize]| all.iter().map(|at| if *at == 0 { name } else { COLUMNS[*at].1 } + 1).sum::<u16>();
    for least in GO_FIRST {
        if needs(&all) <= width + 1 {
            break;
        }
        all.retain(|at| *at != least);
    }
    all
}

fn list(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let rows = screen.rows();
    let name = name_width(screen, area.width);
    let columns = columns(name, area.width);
    let others: u16 = columns.iter().map(|at| if *at == 0 { name } else { COLUMNS[*at].1 } + 1).sum();
    let of_reason = (area.width + 1 + COLUMNS[WHY_NOT].1).saturating_sub(others);
    let widths = columns.iter().map(|at| match *at {
        0 => Constraint::Length(name),
        WHY_NOT => Constraint::Min(COLUMNS[WHY_NOT].1),
        at => Constraint::Length(COLUMNS[at].1),
    });
    let header = columns.iter().map(|at| match *at {
        at @ (0 | WHY_NOT) => Cell::from(COLUMNS[at].0),
        at => right(COLUMNS[at].0.to_owned()),
    });
    let lines = rows.iter().map(|row| {
        let s = &row.state;
        let here = row.here.clone().unwrap_or_default();
        let (why, style) = obstacle(row, screen.sinks.as_ref());
        let in_flight =
            if s.in_flight_at_least { right(format!(">={}", s.in_flight)) } else { number(s.in_flight, Style::new()) };
        let reason = wrapped(&why, of_reason);
        let height = u16::try_from(reason.len()).unwrap_or(1);
        let cells = [
            Cell::from(shortened(&s.queue, name)),
            number(s.scheduled, Style::new()),
            number(s.due, WARN),
            in_flight,
            number(s.retry, WARN),
            number(s.dead, BAD),
            right(late(here.lateness_p50_ms)),
            right(late(here.lateness_p99_ms)),
            right(format!("{:.1}", here.delivered_per_second)),
            right(s.oldest_overdue_ms.map_or_else(|| "-".to_owned(), duration)),
            Cell::from(reason.into_iter().map(Line::from).collect::<Vec<_>>()).style(style),
        ];
        let shown = cells.into_iter().enumerate().filter(|(at, _)| columns.contains(at));
        Cells::new(shown.map(|(_, cell)| cell)).height(height)
    });
    let table = Table::new(lines, widths)
        .header(Cells::new(header).style(QUIET))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(screen.place());
    frame.render_stateful_widget(table, area, &mut state);
}

fn queue(frame: &mut Frame<'_>, area: Rect, screen: &Screen, row: &QueueRow) {
    let s = &row.state;
    let here = row.here.clone().unwrap_or_default();
    let field =
        |name: &str, text: String| Line::from(vec![Span::styled(format!("{name:<16}"), QUIET), Span::raw(text)]);
    let mut lines = vec![
        Line::from(Span::styled(s.queue.clone(), STRONG)),
        Line::default(),
        field("sinks", row.state.sinks.join(", ")),
        field("mode", row.state.mode.clone()),
        field("scheduled", s.scheduled.to_string()),
        field("due", s.due.to_string()),
        field("in flight", format!("{}{}", if s.in_flight_at_least { ">=" } else { "" }, s.in_flight)),
        field("retry", s.retry.to_string()),
        field("dead", s.dead.to_string()),
        field("ready list", s.ready.to_string()),
        field(
            "next due",
            s.next_due_ms.map_or_else(|| "-".to_owned(), |ms| format!("{} ({})", relative(ms, s.now_ms), absolute(ms))),
        ),
        field("oldest overdue", s.oldest_overdue_ms.map_or_else(|| "-".to_owned(), duration)),
        field("lateness", format!("p50 {}, p99 {}", late(here.lateness_p50_ms), late(here.lateness_p99_ms))),
        field("delivered", format!("{:.1}/s, failed {:.1}/s", here.delivered_per_second, here.failed_per_second)),
        Line::default(),
    ];
    if let Some(hold) = &here.held {
        lines.push(Line::styled(
            format!("held for {}: {}", duration(hold.seconds.saturating_mul(1_000)), escaped(&hold.reason)),
            BAD,
        ));
    }
    if let Some(input) = &here.input {
        let style = if input.is_in_trouble() { BAD } else { Style::new() };
        lines.push(Line::styled(format!("{}; {}", escaped(&input.words()), input.numbers()), style));
    }
    lines.extend(s.paused.iter().map(|pause| Line::styled(escaped(&pause.line(s.now_ms)), WARN)));
    let sinks = screen.sinks.iter().flat_map(|sinks| &sinks.sinks).filter(|sink| row.state.sinks.contains(&sink.sink));
    for sink in sinks.filter(|sink| sink.state != "up") {
        let why = sink.reason.as_deref().unwrap_or_default();
        lines.push(Line::styled(format!("sink {} is {}: {}", sink.sink, sink.state, escaped(why)), BAD));
    }
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), area);
}

fn sinks_of(frame: &mut Frame<'_>, area: Rect, screen: &Screen) {
    let Some(sinks) = &screen.sinks else { return };
    let line = |sink: &delaybridge_ops::overview::SinkRow| {
        let style = match sink.word() {
            "up" => GOOD,
            "down" => BAD,
            _ => WARN,
        };
        let troubles = sink.troubles();
        let last = sink.last_problem.as_deref().filter(|_| troubles.is_empty()).map(|last| {
            let ago = duration(sink.last_problem_seconds.unwrap_or(0).saturating_mul(1_000));
            Span::styled(format!("last problem {ago} ago: {}", escaped(last)), QUIET)
        });
        Line::from(vec![
            Span::raw(format!("{:<20} ", sink.sink)),
            Span::styled(format!("{:<10}", sink.word()), style),
            Span::raw(escaped(&troubles.join("; "))),
            last.unwrap_or_default(),
        ])
    };
    let input = |input: &TopicInput| {
        let style = if input.input.is_in_trouble() { BAD } else { Style::new() };
        Line::styled(format!("input {}", escaped(&input.line())), style)
    };
    let mut inputs: Vec<_> = screen.found.inputs.iter().collect();
    inputs.sort_by_key(|input| !input.input.is_in_trouble());
    let head = Line::styled(format!("{:<20} STATE", "SINK"), QUIET);
    // Those with a problem first: there may be more than there is room for.
    let mut sorted: Vec<_> = sinks.sinks.iter().collect();
    sorted.sort_by_key(|sink| !sink.has_trouble());
    let inputs = inputs.into_iter().take(3).map(input);
    let lines: Vec<Line<'_>> = inputs.chain([head]).chain(sorted.into_iter().map(line)).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

fn keys(screen: &Screen) -> Line<'static> {
    match &screen.mode {
        ScreenMode::Filter => Line::from(format!("filter: {}_   enter: keep, esc: drop", escaped(&screen.filter))),
        ScreenMode::Confirm(KeyAction::Resume(queue)) => {
            Line::styled(format!("resume {queue} for all daemons? y: yes, other keys: no"), STRONG)
        }
        ScreenMode::Confirm(action) => {
            let queue = action.queue().unwrap_or_default();
            Line::styled(format!("pause {queue} for all daemons? y: yes, other keys: no"), STRONG)
        }
        ScreenMode::List | ScreenMode::Queue if !screen.told.is_empty() => Line::styled(escaped(&screen.told), STRONG),
        ScreenMode::Queue => Line::styled("p: pause or resume  q: back  r: look now", QUIET),
        ScreenMode::List => {
            let filter = if screen.filter.is_empty() { "none".to_owned() } else { escaped(&screen.filter) };
            let sort = screen.sort.as_str();
            let only = screen.only.as_str();
            let next = screen.found.next.as_ref().map_or("", |_| "n: next page  ");
            let first = screen.after.as_ref().map_or("", |_| "b: first page  ");
            Line::styled(
                format!(
                    "arrows: move  {next}{first}enter: open  s: sort ({sort})  t: show ({only})  /: filter ({filter})  p: pause or resume  r: look \
                     now  q: leave"
                ),
                QUIET,
            )
        }
    }
}
