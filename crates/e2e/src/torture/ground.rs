//! The cluster that is tortured: its members, what lies between them, and what lies below.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use tenure::grpc::{Client, Credentials, Endpoint, Options, Password};
use tokio::task::JoinSet;

use super::{Wiring, truth::Witness};
use crate::{Address, Certs, Cluster, Member, Plan, Spawn, Volume, eventually_within, pb, tools};

/// How long a member may take to say how it is, before it counts as silent.
const LOOK: Duration = Duration::from_millis(400);
/// How long a cluster may take to serve again with all members running, on a machine that does much else.
const SERVES_AGAIN: Duration = Duration::from_secs(60);
/// The disk that fills up: two segments of the log, snapshots, and room for more.
const VOLUME: &str = "size=800m";
/// Small, so that members snapshot and trim their logs all the time.
const FLAGS: [&str; 2] = ["--snapshot-count", "1000"];

/// The user of everything that is asked, and its password.
const ROOT: &str = "root";
const PASSWORD: &str = "torture";

/// How a cluster is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    /// Not at all.
    Open,
    /// TLS on both ports with certificates that must be shown, and users.
    TlsAndUsers,
}

/// A cluster that can be hurt in every way.
#[derive(Debug)]
pub struct Ground {
    /// The members.
    pub cluster: Cluster,
    /// What lies between them.
    pub wiring: Wiring,
    /// The disk below the first member, for root.
    pub volume: Option<Volume>,
    /// Up to which revision every watcher has been told everything.
    pub watched: Vec<Arc<AtomicI64>>,
    /// Reads the members' logs while they are written.
    pub witness: Witness,
    clients: Vec<Client>,
    /// How clients are let in.
    options: Options,
    /// Members that were made so far, and what those that are gone had logged.
    made: usize,
    old_logs: Vec<PathBuf>,
    /// Every process that was started.
    processes: Vec<u32>,
}

/// How a member says it is.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Its index.
    pub at: usize,
    /// Its id.
    pub id: u64,
    /// The raft leader that it follows, 0 for none.
    pub leader: u64,
    /// In which term.
    pub term: u64,
}

impl Ground {
    /// Starts so many members, in namespaces or over relays.
    pub async fn start(count: usize, security: Security) -> Ground {
        Ground::on(Wiring::new(count).await, count, security).await
    }

    /// Starts so many members on these lines.
    pub async fn on(wiring: Wiring, count: usize, security: Security) -> Ground {
        let mut plan = Plan { addresses: Some(wiring.addresses(count)), ..Plan::flags(&FLAGS) };
        if security == Security::TlsAndUsers {
            let certs = Certs::new();
            plan.spawn.tls = Some(certs.clone());
            plan.spawn.peer_tls = Some(certs);
            plan.spawn.credentials = Some(Credentials::user(ROOT, PASSWORD));
            // Short, so that logins are renewed while faults strike; and cheap, as there are many.
            plan.spawn.flags.extend(["--auth-token-ttl=5", "--bcrypt-cost=4"].map(str::to_owned));
        }
        let options = plan.spawn.options();
        let mut cluster = Cluster::prepare(count, plan);
        let volume = tools::is_root().then(|| Volume::new(VOLUME));
        if let Some(volume) = &volume {
            cluster.members[0].data_dir = volume.path().join("n1");
        }
        let clients =
            wiring.addresses(count).iter().map(|(client, _)| one(*client, &options)).collect();
        let (made, watched, old_logs) = (count, Vec::new(), Vec::new());
        let (processes, witness) = (Vec::new(), Witness::start());
        let mut ground = Ground {
            cluster,
            wiring,
            volume,
            watched,
            witness,
            clients,
            options,
            made,
            old_logs,
            processes,
        };
        for at in 0..count {
            ground.dress(at);
            ground.begin(at);
        }
        ground.serves().await;
        if security == Security::TlsAndUsers {
            ground.have_users().await;
        }
        ground
    }

    /// From now on everything that is asked needs a user.
    async fn have_users(&self) {
        let client = self.any();
        let auth = client.auth();
        auth.user_add(ROOT, Some(&Password::new(PASSWORD))).await.expect("a user");
        let root = pb::AuthUserGrantRoleRequest { user: ROOT.into(), role: ROOT.into() };
        auth.user_grant_role(root).await.expect("its role");
        auth.enable(pb::AuthEnableRequest {}).await.expect("users count");
    }

    /// Options of a client of this cluster.
    pub fn options(&self) -> Options {
        self.options.clone()
    }

    /// How many members there are.
    pub fn count(&self) -> usize {
        self.cluster.members.len()
    }

    /// Says how the member in this place is started: where, and under which clock.
    fn dress(&mut self, at: usize) {
        let clock = tools::wall_clock(&self.clock(at));
        let member = &mut self.cluster.members[at];
        self.wiring.place(at, member);
        member.spawn.env = clock;
    }

    /// The file that says what a member's wall clock shows.
    pub fn clock(&self, at: usize) -> PathBuf {
        self.cluster.home().join(format!("clock-{at}"))
    }

    /// The file that says how many milliseconds a flush of a member takes.
    pub fn slowness(&self, at: usize) -> PathBuf {
        self.cluster.home().join(format!("slow-{at}"))
    }

    /// Starts a member's process. Every other one has a disk that forgets what was not flushed: to kill it is a loss of
    /// power.
    pub fn begin(&mut self, at: usize) {
        let forgets = self.processes.len() % 2 == 1;
        self.begin_on(at, forgets);
    }

    /// The same, on a disk that forgets or on one that does not.
    pub fn begin_on(&mut self, at: usize, forgets: bool) {
        if tools::takes_faults() {
            let forget = if forgets { ",forget=30" } else { "" };
            let faults = format!("slow={}{forget}", self.slowness(at).display());
            let env = &mut self.cluster.members[at].spawn.env;
            env.retain(|(name, _)| name != tools::FAULTS);
            env.push((tools::FAULTS.into(), faults.into()));
        }
        let member = &mut self.cluster.members[at];
        self.witness.watch(member.data_dir.clone());
        member.start();
        self.wiring.started(at, member.pid());
        self.processes.push(member.pid());
    }

    /// A client of one member that does not wait long.
    pub fn client(&self, at: usize) -> &Client {
        &self.clients[at]
    }

    /// A client of all members that does not wait long.
    pub fn any(&self) -> Client {
        let options = Options { request_timeout: Duration::from_secs(2), ..self.options() };
        self.cluster.client_with(options)
    }

    /// What all members say that answer at once.
    pub async fn look(&self) -> Vec<View> {
        let mut asked = JoinSet::new();
        for (at, client) in self.clients.iter().cloned().enumerate() {
            asked.spawn(async move {
                let status =
                    tokio::time::timeout(LOOK, client.maintenance().status()).await.ok()?;
                let pb::StatusResponse { header, leader, raft_term: term, .. } = status.ok()?;
                Some(View { at, id: header?.member_id, leader, term })
            });
        }
        let mut views: Vec<View> = asked.join_all().await.into_iter().flatten().collect();
        views.sort_by_key(|view| view.at);
        views
    }

    /// The raft leader of the newest known term, if it is there.
    pub async fn leader(&self) -> Option<usize> {
        let views = self.look().await;
        let leads = views.iter().filter(|view| view.leader == view.id);
        leads.max_by_key(|view| view.term).map(|view| view.at)
    }

    /// The raft leader, which must exist soon.
    pub async fn some_leader(&self) -> usize {
        eventually_within(SERVES_AGAIN, "somebody leads", async || {
            self.leader().await.ok_or_else(|| "nobody".to_owned())
        })
        .await
    }

    /// Waits until every member follows the same raft leader and a write is acknowledged.
    pub async fn serves(&mut self) {
        self.all_run();
        eventually_within(SERVES_AGAIN, "every member follows one raft leader", async || {
            let views = self.look().await;
            let one = views.first().map_or(0, |view| view.leader);
            let agree = views.iter().all(|view| view.leader == one);
            let all = one != 0 && agree && views.len() == self.count();
            if all { Ok(()) } else { Err(format!("{views:?}")) }
        })
        .await;
        let client = self.any();
        eventually_within(SERVES_AGAIN, "a write is acknowledged", async || {
            let put = pb::PutRequest { key: "served".into(), ..Default::default() };
            client.kv().put(put).await.map_err(|error| error.to_string())
        })
        .await;
    }

    /// Fails if a process ended that the test did not end.
    pub fn all_run(&mut self) {
        for member in &mut self.cluster.members {
            if let Some(status) = member.ended() {
                panic!("{} ended by itself with {status}", member.name);
            }
            assert!(member.runs(), "{} was not started again", member.name);
        }
    }

    /// A new member in the place of one that was removed: another name and an empty disk. Not started.
    pub fn replace(&mut self, at: usize, initial: impl Fn(&str, &Member) -> String) {
        self.made += 1;
        let name = format!("n{}", self.made);
        let home = self.cluster.home().to_path_buf();
        let old = &self.cluster.members[at];
        let mut new = Member::new(&name, &home, old.client, old.peer, &initial(&name, old));
        let Spawn { flags, tls, peer_tls, credentials, .. } = old.spawn.clone();
        new.spawn = Spawn { tls, peer_tls, credentials, ..Spawn::default() };
        // That of a member which was itself a replacement says so already.
        let is_state = |flag: &String| flag == "--initial-cluster-state" || flag == "existing";
        new.spawn.flags = flags.into_iter().filter(|flag| !is_state(flag)).collect();
        new.spawn.flags.extend(["--initial-cluster-state".to_owned(), "existing".to_owned()]);
        if at == 0
            && let Some(volume) = &self.volume
        {
            new.data_dir = volume.path().join(&name);
        }
        let old = std::mem::replace(&mut self.cluster.members[at], new);
        self.old_logs.push(old.log_file.clone());
        // Its disk is the next one's.
        let _ = fs::remove_dir_all(&old.data_dir);
        self.dress(at);
    }

    /// The revision up to which history may be forgotten: no watcher needs it any more.
    pub fn forgettable(&self) -> i64 {
        let seen = self.watched.iter().map(|seen| seen.load(Ordering::Relaxed));
        seen.min().unwrap_or(0).saturating_sub(1)
    }

    /// Everything that members have logged so far, also those that are gone.
    pub fn logs(&self) -> String {
        let live = self.cluster.members.iter().map(|member| member.log_file.clone());
        let read = |file: PathBuf| {
            String::from_utf8_lossy(&fs::read(file).unwrap_or_default()).into_owned()
        };
        live.chain(self.old_logs.iter().cloned()).map(read).collect()
    }

    /// Leaves data and logs for people to look at; answers where.
    pub fn keep(&mut self) -> PathBuf {
        self.cluster.keep();
        let home = self.cluster.home().to_path_buf();
        if let Some(volume) = &self.volume {
            // It goes away with the volume otherwise.
            let _ = copy(volume.path(), &home.join("volume"));
        }
        home
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What libfaketime shares between processes outlives those that are killed, and would be found by
        // the next process of that number.
        for pid in &self.processes {
            for kind in ["faketime_shm", "sem.faketime_sem"] {
                let _ = fs::remove_file(format!("/dev/shm/{kind}_{pid}"));
            }
        }
        if std::thread::panicking() {
            eprintln!("data and logs are in {}", self.keep().display());
        }
    }
}

fn one(address: Address, options: &Options) -> Client {
    let endpoint: Endpoint = address.to_string().parse().expect("an address");
    let options = Options {
        dial_timeout: Duration::from_millis(500),
        request_timeout: Duration::from_secs(1),
        ..options.clone()
    };
    Client::new(vec![endpoint], options)
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
