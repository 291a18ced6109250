//! Tests of the RabbitMQ nodes: they start, obey, and disappear.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use brokers::rabbit::{Queue, Rabbit, RabbitOptions};

#[test]
fn a_node_is_administered_and_lasts_through_a_kill() {
    let rabbit = Rabbit::start_with(RabbitOptions { tls: true, ..RabbitOptions::default() }).unwrap();
    assert!(greets(rabbit.port(), Duration::from_secs(60)));
    assert!(TcpStream::connect(("127.0.0.1", rabbit.tls_port())).is_ok());
    assert!(rabbit.certificates().ca.exists());

    for (user, works) in [("guest", true), ("limited", true), ("nobody", false)] {
        let login = format!("rabbit_access_control:check_user_pass_login(<<\"{user}\">>, <<\"{user}\">>)");
        assert_eq!(rabbit.eval(&login).unwrap().starts_with("{ok,"), works, "{user}");
    }
    rabbit.add_vhost("new").unwrap();
    rabbit.add_user("alice", "secret").unwrap();
    rabbit.set_permissions("new", "alice", [".*", "^orders$", ".*"]).unwrap();
    assert!(
        rabbit.eval("rabbit_auth_backend_internal:list_vhost_permissions(<<\"new\">>)").unwrap().contains("^orders$")
    );

    rabbit.kill();
    assert!(TcpStream::connect(("127.0.0.1", rabbit.port())).is_err());
    rabbit.restart().unwrap();
    assert!(rabbit.eval("rabbit_vhost:exists(<<\"new\">>)").unwrap() == "true");
}

#[test]
fn a_node_raises_alarms_freezes_and_lists_queues() {
    let definitions = r#"{
        "vhosts": [{"name": "/"}],
        "users": [{"name": "guest", "password": "guest", "tags": "administrator"}],
        "permissions": [{"user": "guest", "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}],
        "queues": [{"name": "orders", "vhost": "/", "durable": true, "auto_delete": false, "arguments": {}}]
    }"#;
    let options = RabbitOptions { definitions: Some(definitions.to_owned()), ..RabbitOptions::default() };
    let rabbit = Rabbit::start_with(options).unwrap();
    let orders = Queue { name: "orders".to_owned(), ready: 0, unacknowledged: 0 };
    assert_eq!(rabbit.queues("/").unwrap(), [orders]);
    assert_eq!(rabbit.queue_depth("/", "orders").unwrap(), Some(0));
    assert_eq!(rabbit.queue_depth("/", "other").unwrap(), None);

    let alarms = || rabbit.eval("rabbit_alarm:get_alarms()").unwrap();
    for (set, name) in
        [(Rabbit::set_memory_alarm as fn(&Rabbit, bool) -> _, "memory"), (Rabbit::set_disk_alarm, "disk")]
    {
        set(&rabbit, true).unwrap();
        assert!(alarms().contains(name), "{name}");
        set(&rabbit, false).unwrap();
        assert!(!alarms().contains(name), "{name}");
    }
    rabbit.close_all_connections("a test asks").unwrap();
    // Several tests ask at the same time.
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(rabbit.eval("timer:sleep(200), 1").unwrap(), "1"));
        }
    });
    assert!(rabbit.eval("1/0").unwrap_err().to_string().contains("badarith"));

    rabbit.freeze();
    assert!(!greets(rabbit.port(), Duration::from_millis(300)));
    rabbit.thaw();
    assert!(greets(rabbit.port(), Duration::from_secs(60)));
    rabbit.stop();
    assert!(TcpStream::connect(("127.0.0.1", rabbit.port())).is_err());
}

/// Whether the server responds to a client's protocol header.
fn greets(port: u16, patience: Duration) -> bool {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"AMQP\x00\x00\x09\x01").unwrap();
    stream.set_read_timeout(Some(patience)).unwrap();
    stream.read(&mut [0]).is_ok_and(|read| read == 1)
}
