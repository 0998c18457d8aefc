//! Members that are replaced, that were away for too long, and history that is forgotten.

use std::time::{Duration, Instant};

use tenure::grpc::Client;

use crate::{
    Member, eventually_within, pb,
    torture::{Chance, Ground},
};

/// How long a change of members may take on a busy machine, with all members well.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long one that needs a snapshot may take to have it; one that needs none never will.
const INSTALLED_WITHIN: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// A follower keeps 16 MiB of its log for members that are behind when it leads.
const MORE_THAN_A_FOLLOWER_KEEPS_MIB: usize = 20;

/// Writes so many MiB over the same few keys; whatever fails does.
pub(super) async fn fill(ground: &Ground, mib: usize) {
    let client = ground.any();
    for number in 0..mib {
        let put = pb::PutRequest {
            key: format!("filler/{}", number % 4).into(),
            value: vec![b'x'; 1 << 20].into(),
            ..Default::default()
        };
        let _ = client.kv().put(put).await;
    }
}

/// A follower is away while more is written than others keep; then another member leads, and it comes back.
pub(super) async fn away_too_long(ground: &mut Ground, chance: &mut Chance) -> bool {
    let before = installed(ground);
    let leader = ground.some_leader().await;
    let away = (leader + 1 + chance.below(ground.count() - 1)) % ground.count();
    ground.cluster.members[away].kill();
    fill(ground, MORE_THAN_A_FOLLOWER_KEEPS_MIB).await;
    super::processes::hand_over(ground, chance).await;
    ground.begin(away);
    ground.serves().await;
    is_installed(ground, before, INSTALLED_WITHIN).await
}

/// How many snapshots were installed so far.
pub(super) fn installed(ground: &Ground) -> usize {
    ground.logs().matches("installed a snapshot").count()
}

/// Whether one more is, within so much time.
pub(super) async fn is_installed(ground: &Ground, before: usize, within: Duration) -> bool {
    let give_up = Instant::now() + within;
    while installed(ground) == before && Instant::now() < give_up {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    installed(ground) > before
}

/// Removes a member and adds a new one in its place, with another name and an empty disk.
pub(super) async fn replace(ground: &mut Ground, chance: &mut Chance) -> bool {
    ground.serves().await;
    let at = chance.below(ground.count());
    let client = ground.client((at + 1) % ground.count()).clone();
    let views = ground.look().await;
    let Some(id) = views.iter().find(|view| view.at == at).map(|view| view.id) else {
        return false;
    };
    remove(&client, id).await;
    let ended = ground.cluster.members[at].wait_for_end().await;
    assert_eq!(ended.code(), Some(5), "a member that was removed says so");
    add(&client, ground, at, false).await;
    ground.begin(at);
    ground.serves().await;
    true
}

/// Removes a member, asking until it is done.
pub(super) async fn remove(client: &Client, id: u64) {
    eventually_within(PATIENCE, "a member is removed", async || {
        let request = pb::MemberRemoveRequest { id };
        match client.cluster().member_remove(request).await {
            Err(error) if !error.to_string().contains("member not found") => Err(error.to_string()),
            _ => Ok(()),
        }
    })
    .await;
}

/// Adds a member in the place of one that was removed, asking until it is done. It is not started.
pub(super) async fn add(client: &Client, ground: &mut Ground, at: usize, is_learner: bool) {
    let peer = ground.cluster.members[at].peer;
    let members = eventually_within(PATIENCE, "a member is added", async || {
        let request = pb::MemberAddRequest { peer_ur_ls: vec![peer.url()], is_learner };
        match client.cluster().member_add(request).await {
            Ok(_) => {}
            Err(error) if error.to_string().contains("exists") => {}
            Err(error) => return Err(error.to_string()),
        }
        let list = client.cluster().member_list(pb::MemberListRequest { linearizable: true }).await;
        list.map(|list| list.members).map_err(|error| error.to_string())
    })
    .await;
    ground.replace(at, |name: &str, old: &Member| {
        let all = members.iter().map(|one| {
            let url = one.peer_ur_ls.first().map_or("", String::as_str);
            let name = if url == old.peer.url() { name } else { &one.name };
            format!("{name}={url}")
        });
        all.collect::<Vec<_>>().join(",")
    });
}

/// Gives a vote to the member in this place, asking until it has one.
pub(super) async fn promote(client: &Client, ground: &Ground, at: usize) {
    let peer = ground.cluster.members[at].peer;
    eventually_within(PATIENCE, "a member is promoted", async || {
        let list = client.cluster().member_list(pb::MemberListRequest { linearizable: true }).await;
        let members = list.map_err(|error| error.to_string())?.members;
        let new = members.iter().find(|one| one.peer_ur_ls.contains(&peer.url()));
        let new = new.ok_or("it is not on the list")?;
        if !new.is_learner {
            return Ok(());
        }
        let request = pb::MemberPromoteRequest { id: new.id };
        let promoted = client.cluster().member_promote(request).await;
        promoted.map(drop).map_err(|error| error.to_string())
    })
    .await;
}

/// Forgets what no watcher waits for any more.
pub(super) async fn compact(ground: &Ground) -> bool {
    let revision = ground.forgettable();
    if revision < 2 {
        return false;
    }
    let request = pb::CompactionRequest { revision, physical: false };
    ground.any().kv().compact(request).await.is_ok()
}
