//! The screen, drawn into memory.

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::every;
use super::screen::{KeyAction, Screen, ScreenMode};
use super::view::draw;
use delaybridge_ops::QueueError;
use delaybridge_ops::overview::{Here, Hold, InputRow, Overview, QueueRow, SinkList, SinkRow};
use delaybridge_ops::pause::PauseState;
use delaybridge_ops::queue_order::{QueueFilter, QueueOrder};
use delaybridge_ops::queue_state::QueueState;

fn row(queue: &str, due: i64, dead: i64) -> QueueRow {
    let state = QueueState {
        queue: queue.to_owned(),
        now_ms: 10_000,
        scheduled: 7,
        due,
        dead,
        mode: "deliver".to_owned(),
        sinks: vec!["events".to_owned()],
        ..QueueState::default()
    };
    QueueRow { state, here: Some(Here::default()) }
}

fn screen() -> Screen {
    let mut held = row("orders", 12, 0);
    held.here = Some(Here {
        held: Some(Hold { reason: "no such topic".to_owned(), seconds: 5 }),
        delivered_per_second: 2.5,
        lateness_p99_ms: Some(42.0),
        ..Here::default()
    });
    let mut paused = row("mails", 3, 9);
    let why =
        PauseState { by: "ann".to_owned(), why: "a deployment".to_owned(), since_ms: 5_000, ..PauseState::default() };
    paused.state.paused.push(why);
    let down = SinkRow {
        sink: "events".to_owned(),
        state: "down".to_owned(),
        reason: Some("no \u{1b}[31mbroker".to_owned()),
        ..SinkRow::default()
    };
    let mut screen = Screen::new("127.0.0.1:9465".to_owned());
    let queues = vec![held, paused, row("invoices", 0, 0)];
    screen.saw(Ok((Overview { queues, ..Overview::default() }, Some(SinkList { sinks: vec![down] }))), None);
    screen
}

/// The lines of the screen.
fn lines(screen: &Screen, width: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, 24)).unwrap();
    terminal.draw(|frame| draw(frame, screen)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let line = |y| (0..width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>().trim_end().to_owned();
    (0..24).map(line).collect()
}

fn press(screen: &mut Screen, text: &str) -> Option<KeyAction> {
    let press = |code| KeyEvent::new(code, KeyModifiers::NONE);
    text.chars().fold(None, |_, letter| {
        screen.key(press(match letter {
            '\n' => KeyCode::Enter,
            '\u{1b}' => KeyCode::Esc,
            letter => KeyCode::Char(letter),
        }))
    })
}

#[test]
fn every_queue_has_a_line_that_says_why_it_does_not_move() {
    let lines = lines(&screen(), 140);
    assert!(lines[0].starts_with("delaybridge top  127.0.0.1:9465  3 queues"), "{}", lines[0]);
    assert!(lines[1].contains("scheduled 21  due 15") && lines[1].ends_with("dead 9"), "{}", lines[1]);
    let words: Vec<_> = lines[3].split_whitespace().collect();
    assert_eq!(words[..10], ["orders", "7", "12", "0", "0", "0", "-", "42ms", "2.5", "-"]);
    assert!(lines[3].ends_with("held: no such topic"), "{}", lines[3]);
    assert!(lines[4].contains("paused 5s ago by ann: a deployment"), "{}", lines[4]);
    let sink = lines.iter().find(|line| line.starts_with("events")).unwrap();
    assert!(sink.contains("down") && sink.contains("no \\u{1b}[31mbroker"), "nothing that a terminal obeys: {sink}");
    assert!(lines[23].contains("s: sort (trouble)  t: show (all)"), "{}", lines[23]);
    let invoices = lines.iter().find(|line| line.starts_with("invoices")).unwrap();
    assert!(invoices.contains("sink events down: no"), "{invoices}");
}

#[test]
fn a_narrow_terminal_shows_the_names_and_why_nothing_moves_and_says_what_is_left_out() {
    let narrow = lines(&screen(), 60);
    assert!(narrow[3].starts_with("orders"), "{narrow:?}");
    let shown = lines(&screen(), 110);
    for lines in [&narrow, &shown] {
        assert!(lines[2].contains("WHY NOT") && lines[3].contains("held: no"), "the reason stays: {lines:?}");
        assert!(lines[0].contains("no room for"), "{lines:?}");
    }
    assert!(shown[2].contains("OVERDUE") && shown[2].contains("RETRY"), "{shown:?}");
}

#[test]
fn keys_sort_filter_and_open() {
    let mut screen = screen();
    let order = |screen: &Screen| screen.rows().iter().map(|row| row.state.queue.clone()).collect::<Vec<_>>();
    assert_eq!(order(&screen), ["orders", "mails", "invoices"]);
    press(&mut screen, "ss");
    assert_eq!(order(&screen), ["invoices", "mails", "orders"]);
    press(&mut screen, "sss");
    assert_eq!(order(&screen)[0], "mails", "the most dead letters first");
    press(&mut screen, "/MAI\n");
    assert_eq!(order(&screen), ["mails"]);
    assert_eq!(screen.current().unwrap().state.queue, "mails");
    press(&mut screen, "\n");
    let shown = lines(&screen, 100).join("\n");
    assert!(shown.contains("sink events is down") && shown.contains("paused 5s ago by ann"), "{shown}");
    assert_eq!(press(&mut screen, "q"), None);
    assert_eq!(screen.mode, ScreenMode::List);
    press(&mut screen, "\u{1b}");
    assert_eq!(order(&screen).len(), 3);
    assert_eq!(press(&mut screen, "q"), Some(KeyAction::Leave));
}

#[test]
fn trouble_is_first_and_can_be_all_that_is_shown() {
    let mut screen = screen();
    let order = |screen: &Screen| screen.rows().iter().map(|row| row.state.queue.clone()).collect::<Vec<_>>();
    let mut calm = row("calm", 0, 0);
    calm.state.sinks.clear();
    screen.found.queues.insert(0, calm);
    assert_eq!(order(&screen), ["orders", "mails", "invoices", "calm"]);
    press(&mut screen, "t");
    assert_eq!(order(&screen), ["orders", "mails", "invoices"], "trouble");
    press(&mut screen, "t");
    assert_eq!((order(&screen), screen.current().unwrap().state.queue.as_str()), (vec!["mails".to_owned()], "mails"));
    assert!(lines(&screen, 140)[23].contains("t: show (paused)"));
    press(&mut screen, "tt");
    assert_eq!(order(&screen), ["mails"], "dead");
    press(&mut screen, "t");
    assert_eq!(order(&screen).len(), 4);
}

#[test]
fn of_many_queues_the_page_that_is_shown_is_asked_for() {
    let mut screen = screen();
    assert_eq!((screen.wanted().limit, screen.wanted().sort), (200, QueueOrder::Trouble));
    assert_eq!(press(&mut screen, "n"), None, "these are all");
    let page = |queue: &str, next: Option<&str>| {
        let next = next.map(str::to_owned);
        Ok((Overview { queues: vec![row(queue, 0, 0)], next, total: Some(401), ..Overview::default() }, None))
    };
    screen.saw(page("q200", Some("q200")), None);
    assert!(lines(&screen, 140)[0].contains("1 of 401 queues"), "{}", lines(&screen, 140)[0]);
    assert!(lines(&screen, 140)[23].contains("n: next page") && !lines(&screen, 140)[23].contains("b: first page"));
    assert_eq!(press(&mut screen, "n"), Some(KeyAction::Refresh));
    assert_eq!(screen.wanted().after.as_deref(), Some("q200"));
    screen.saw(page("q400", None), None);
    assert_eq!(screen.current().unwrap().state.queue, "q400");
    assert!(lines(&screen, 140)[23].contains("b: first page") && !lines(&screen, 140)[23].contains("n: next page"));
    // Another order, filter or name begins with its first page.
    for (keys, order, only, like) in [
        ("s", QueueOrder::File, QueueFilter::All, ""),
        ("t", QueueOrder::File, QueueFilter::Trouble, ""),
        ("/Q4\n", QueueOrder::File, QueueFilter::Trouble, "Q4"),
        ("\u{1b}", QueueOrder::File, QueueFilter::Trouble, ""),
        ("b", QueueOrder::File, QueueFilter::Trouble, ""),
    ] {
        screen.after = Some("q200".to_owned());
        assert_eq!(press(&mut screen, keys), Some(KeyAction::Refresh), "{keys}");
        let wanted = screen.wanted();
        assert_eq!((wanted.after, wanted.sort, wanted.show, wanted.like.as_str()), (None, order, only, like), "{keys}");
    }
}

#[test]
fn a_long_reason_has_more_lines_and_a_long_name_fewer_letters() {
    let mut screen = screen();
    let queue = "a_queue_with_a_name_that_goes_on_and_on_eu";
    let mut long = row(queue, 1, 0);
    let reason =
        "topic orders: the broker does not know it; make it, or correct the name in the configuration of the queue";
    long.here = Some(Here { held: Some(Hold { reason: reason.to_owned(), seconds: 5 }), ..Here::default() });
    screen.found.queues = vec![long, row("b", 0, 0)];
    for (width, words) in [
        (60, &["held: topic orders: the", "broker does not know it;", "make it, or correct the…"][..]),
        (280, &[reason]),
    ] {
        let lines = lines(&screen, width);
        for (at, words) in words.iter().enumerate() {
            assert!(lines[3 + at].ends_with(words), "{words} at {at} of {lines:?}");
        }
        assert!(lines[3 + words.len()].starts_with("b "), "{lines:?}");
        assert!(lines[2].contains("WHY NOT"), "{lines:?}");
    }
    assert!(lines(&screen, 60)[3].starts_with("a_queue_with_a_na…"), "{:?}", lines(&screen, 60)[3]);
}

#[test]
fn an_input_says_why_it_takes_nothing_and_what_it_took() {
    let mut screen = screen();
    let state = "waiting".to_owned();
    let reason = Some("0 of 1 replicas have it".to_owned());
    let input = InputRow { state, reason, seconds: 5, received: 7, scheduled: 7, lag: 3, ..InputRow::default() };
    let mut late = row("orders", 1, 0);
    late.state.sinks.clear();
    late.here = Some(Here { input: Some(input), ..Here::default() });
    screen.found.queues = vec![late];
    assert!(
        lines(&screen, 160)[3].ends_with("input waiting for 5s: 0 of 1 replicas have it"),
        "{:?}",
        lines(&screen, 160)
    );
    press(&mut screen, "\n");
    let opened = lines(&screen, 160).join("\n");
    assert!(opened.contains("7 received, 7 scheduled, 0 known already, 0 refused, 3 wait at the broker"), "{opened}");
}

#[test]
fn a_pause_is_asked_for_twice() {
    let mut screen = screen();
    assert_eq!(press(&mut screen, "p"), None);
    assert!(lines(&screen, 100)[23].starts_with("pause orders for all daemons?"));
    assert_eq!(press(&mut screen, "n"), None);
    assert_eq!(press(&mut screen, "py"), Some(KeyAction::Pause("orders".to_owned())));
    assert_eq!(press(&mut screen, "jpy"), Some(KeyAction::Resume("mails".to_owned())));
}

#[test]
fn what_is_old_says_so_and_the_cursor_stays_with_its_queue() {
    let mut screen = screen();
    press(&mut screen, "j");
    screen.saw(Err("no answer within 30 s".to_owned()), None);
    assert!(lines(&screen, 100)[0].contains("old: no answer within 30 s"));
    screen.saw(Ok((Overview { queues: vec![row("a", 0, 0), row("mails", 0, 0)], ..Overview::default() }, None)), None);
    assert_eq!(screen.current().unwrap().state.queue, "mails");
    screen.saw(Ok((Overview { queues: vec![row("a", 0, 0)], ..Overview::default() }, None)), None);
    assert_eq!(screen.current().unwrap().state.queue, "a");
    let error = QueueError { queue: "a".to_owned(), message: "Redis is away".to_owned() };
    screen.saw(Ok((Overview { errors: vec![error], ..Overview::default() }, None)), None);
    assert!(lines(&screen, 100)[1].starts_with("scheduled -  due -  in flight -  retry -  dead -  not read 1"));
}

#[test]
fn looks_are_no_load() {
    assert!(every("100ms").is_err() && every("2h").is_err() && every("soon").is_err());
    assert_eq!(every("1s"), Ok(std::time::Duration::from_secs(1)));
}
