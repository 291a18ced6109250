//! Least rights: every process of a test logs in as a user with exactly the rights that `delaybridge acl` prints for
//! its configuration. So the whole suite runs with those rights, and a missing right makes it fail. The tests
//! themselves use the default user.
//!
//! The rules come from the library; the suite shows whether they are sufficient.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::time::Duration;

use delaybridge_config::load_str;
use delaybridge_link::SentinelTarget;
use delaybridge_link::{RedisEndpoint, RedisTarget};
use delaybridge_model::Config;
use delaybridge_ops::acl::{AclPurpose, AclVersion, User, users};

/// The variable that passes the password to a process, and the password.
pub const PASSWORD: (&str, &str) = ("DELAYBRIDGE_TEST_PASSWORD", "least");

/// Time-out after which a server counts as down.
const ANSWER: Duration = Duration::from_secs(5);

/// The servers with a file of users, by every port that leads to them.
static SERVERS: LazyLock<Mutex<HashMap<u16, Arc<Users>>>> = LazyLock::new(Mutex::default);
/// The servers behind sentinels, by the port of the first sentinel.
static GROUPS: LazyLock<Mutex<HashMap<u16, Vec<u16>>>> = LazyLock::new(Mutex::default);
static NEXT: AtomicU64 = AtomicU64::new(1);

static CLUSTERS: Mutex<Vec<OneCluster>> = Mutex::new(Vec::new());

/// The ports of the nodes of a cluster, and the users that were created on all of them.
#[derive(Debug)]
struct OneCluster {
    ports: Vec<u16>,
    users: Vec<(String, Vec<String>)>,
}

fn clusters() -> MutexGuard<'static, Vec<OneCluster>> {
    CLUSTERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Registers these servers as one cluster: users are created on all of them.
pub fn are_one_cluster(ports: &[u16]) {
    clusters().push(OneCluster { ports: ports.to_vec(), users: Vec::new() });
}

/// Adds the server on `port` to the cluster of `other`.
pub fn joins_cluster(port: u16, other: u16) {
    let users = {
        let mut clusters = clusters();
        let of = clusters.iter_mut().find(|cluster| cluster.ports.contains(&other)).expect("a cluster of the tests");
        of.ports.push(port);
        of.users.clone()
    };
    let node = servers().get(&port).cloned().expect("a server that keeps its users");
    users.iter().for_each(|(name, rules)| node.set(name, rules));
}

/// Creates a user on all nodes of the cluster of this port; `None` if it is in no cluster.
fn new_user_of_cluster(port: u16, user: &User) -> Option<String> {
    let name = format!("least-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let ports = clusters().iter().find(|cluster| cluster.ports.contains(&port))?.ports.clone();
    let nodes: Vec<_> = ports.iter().filter_map(|port| servers().get(port).cloned()).collect();
    let rules = user.rules(nodes.first()?.dialect);
    nodes.iter().for_each(|node| node.set(&name, &rules));
    if let Some(of) = clusters().iter_mut().find(|cluster| cluster.ports.contains(&port)) {
        of.users.push((name.clone(), rules));
    }
    Some(name)
}

/// The file with a server's users.
#[derive(Debug)]
pub struct Users {
    /// The port without TLS.
    port: u16,
    file: PathBuf,
    /// The version of the server, which determines the syntax of rules.
    dialect: AclVersion,
}

fn servers() -> MutexGuard<'static, HashMap<u16, Arc<Users>>> {
    SERVERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Registers a server of that version with the file of its users; the first port is without TLS.
pub fn keeps_users(ports: &[u16], file: &Path, major: u32) {
    let dialect = if major < 7 { AclVersion::Six } else { AclVersion::Seven };
    let users = Arc::new(Users { port: ports[0], file: file.to_owned(), dialect });
    servers().extend(ports.iter().map(|port| (*port, users.clone())));
}

/// Registers `port` as leading to the same server as `target`.
pub fn leads_to(port: u16, target: u16) {
    let mut servers = servers();
    if let Some(users) = servers.get(&target).cloned() {
        servers.insert(port, users);
    }
}

impl Users {
    /// Creates the user: at once if the server answers, and for its next start.
    fn set(&self, name: &str, rules: &[String]) {
        let password = format!(">{}", PASSWORD.1);
        if let Err(error) = self.set_rights(name, &password, rules) {
            assert!(error.is_io_error() || error.is_timeout(), "make the user {name} with {rules:?}: {error}");
            let line = format!("user {name} {password} {}\n", rules.join(" "));
            let file = std::fs::OpenOptions::new().append(true).open(&self.file);
            file.and_then(|mut file| file.write_all(line.as_bytes())).expect("write the file of a server's users");
        }
    }

    fn set_rights(&self, name: &str, password: &str, rules: &[String]) -> redis::RedisResult<()> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}/", self.port))?;
        let mut connection = client.get_connection_with_timeout(ANSWER)?;
        connection.set_read_timeout(Some(ANSWER))?;
        redis::cmd("ACL").arg("SETUSER").arg(name).arg(password).arg(rules).exec(&mut connection)?;
        redis::cmd("ACL").arg("SAVE").exec(&mut connection)
    }
}

/// The configuration with users with the least rights, wherever it names a server of the tests without a user; `None`
/// if there is none.
pub fn confined(path: &Path, purpose: AclPurpose) -> Option<String> {
    let mut text = std::fs::read_to_string(path).expect("read the configuration");
    // An invalid configuration is left as it is.
    let loaded = load_str(&text, &path.to_string_lossy(), &|name| std::env::var_os(name)).ok()?;
    let mut changed = false;
    for user in users(&loaded.config, purpose) {
        if let RedisTarget::Cluster(target) = &user.target {
            let open = target.servers.username.is_none() && target.servers.password.is_none();
            let name = open.then(|| new_user_of_cluster(target.seeds[0].port, &user)).flatten();
            if let Some(name) = name {
                let login = format!("username: {name}, password: '${{{}}}', cluster: [", PASSWORD.0);
                text = text.replace("cluster: [", &login);
                changed = true;
            }
            continue;
        }
        if let RedisTarget::Sentinel(sentinel) = &user.target {
            text = on_all_of(&text, sentinel, &user);
            changed = true;
            continue;
        }
        let Some(RedisEndpoint { port, username, password, .. }) = user.target.fixed().map(|endpoint| &**endpoint)
        else {
            continue;
        };
        let Some(server) = servers().get(port).cloned() else { continue };
        if username.is_some() || password.is_some() {
            continue;
        }
        let name = new_user(&server, &user.rules(server.dialect));
        for scheme in ["redis", "rediss"] {
            let login = format!("{scheme}://{name}:${{{}}}@127.0.0.1:{port}", PASSWORD.0);
            text = with_login(&text, &format!("{scheme}://127.0.0.1:{port}"), &login);
        }
        changed = true;
    }
    changed.then_some(text)
}

/// The text with a user with these rights in `sentinel: {`, on every server that the sentinels watch, because users are
/// not replicated.
fn on_all_of(text: &str, target: &SentinelTarget, user: &User) -> String {
    let Some(first) = target.nodes.first().filter(|_| target.servers.username.is_none()) else {
        return text.to_owned();
    };
    let watched = GROUPS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).get(&first.port).cloned();
    let watched = watched.expect("the sentinels of a test");
    let name = format!("least-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    for port in watched {
        let server = servers().get(&port).cloned().expect("a server that keeps its users");
        server.set(&name, &user.rules(server.dialect));
    }
    let login = format!("username: {name}, password: '${{{}}}', sentinel: {{", PASSWORD.0);
    text.replacen("sentinel: {", &login, 1)
}

/// Registers the servers that the sentinel on this port watches.
pub fn watches(sentinel: u16, servers: Vec<u16>) {
    GROUPS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(sentinel, servers);
}

/// The text with `login` instead of `url`, in quotes, which a value with `${...}` needs.
fn with_login(text: &str, url: &str, login: &str) -> String {
    let mut parts = text.split(url);
    let mut all = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let quoted = all.ends_with(['\'', '"']);
        let end = part.find(|letter: char| letter.is_whitespace() || ",}]'\"".contains(letter)).unwrap_or(part.len());
        let quote = if quoted { "" } else { "'" };
        all.push_str(&format!("{quote}{login}{}{quote}{}", &part[..end], &part[end..]));
    }
    all
}

fn new_user(server: &Users, rules: &[String]) -> String {
    let name = format!("least-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    server.set(&name, rules);
    name
}

/// The endpoint for the library as a user with the rights of a daemon and an operator for the queues of `config`, and
/// those in `more`.
pub fn endpoint(open: RedisEndpoint, config: &Config, more: &[&str]) -> RedisEndpoint {
    let server = servers().get(&open.port).cloned().expect("a server that keeps its users");
    let both = [AclPurpose::Run, AclPurpose::Operator].into_iter().flat_map(|purpose| users(config, purpose));
    let grants = both.flat_map(|user| user.grants).collect();
    let user = User { target: open.clone().into(), uses: Vec::new(), grants, of_sentinel: false };
    let rules: Vec<_> = user.rules(server.dialect).into_iter().chain(more.iter().map(ToString::to_string)).collect();
    RedisEndpoint {
        username: Some(new_user(&server, &rules)),
        password: Some(delaybridge_settings::Secret::Literal(PASSWORD.1.into())),
        ..open
    }
}
