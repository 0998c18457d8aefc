#![allow(clippy::unwrap_used)]

use tenure_api::Term;
use tenure_replica::SnapshotMark;

use super::{
    joining::{agreed, named, unknown},
    *,
};
use crate::disk::SavedSnapshot;

fn member(id: u64, url: &str) -> Member {
    Member {
        id: MemberId(id),
        name: String::new(),
        peer_urls: vec![url.to_owned()],
        client_urls: vec![],
        is_learner: false,
    }
}

fn roster(members: &[(u64, &str)]) -> Roster {
    let members = members.iter().map(|(id, url)| member(*id, url)).collect();
    Roster { members, ..Roster::default() }
}

fn started(mut roster: Roster) -> Roster {
    for member in &mut roster.members {
        member.client_urls = vec!["http://clients:1".into()];
    }
    roster
}

#[test]
fn one_that_lags_does_not_make_a_new_member_the_one_that_was_removed() {
    let mine = ["http://new:1".to_owned()];
    let lags = roster(&[(1, "http://a:1"), (7, "http://new:1")]);
    let knows = roster(&[(1, "http://a:1"), (8, "http://new:1")]);
    let not_yet = roster(&[(1, "http://a:1")]);
    let who = |rosters: &[Roster]| agreed(&named(rosters, &mine)).map(|(_, me)| me.0);
    assert_eq!(who(&[lags.clone(), knows.clone(), knows.clone()]), Some(8));
    assert_eq!(who(&[lags, knows.clone()]), None, "it asks again");
    assert_eq!(who(&[not_yet.clone(), knows]), Some(8));
    assert_eq!(who(&[not_yet]), None);
}

/// The one that lags may be the only one that answers.
#[test]
fn nobody_becomes_a_member_that_has_run() {
    let mine = ["http://new:1".to_owned()];
    let lags = started(roster(&[(1, "http://a:1"), (7, "http://new:1/")]));
    let knows = roster(&[(1, "http://a:1"), (8, "http://new:1/")]);
    let who = |rosters: &[Roster]| agreed(&named(rosters, &mine)).map(|(_, me)| me.0);
    assert_eq!(who(std::slice::from_ref(&lags)), None);
    assert_eq!(who(&[lags.clone(), lags.clone(), knows]), Some(8));
    let config = Config { initial_advertise_peer_urls: mine.to_vec(), ..Config::default() };
    let said = unknown(&config, &[lags]).to_string();
    assert!(said.contains("has run before"), "{said}");
    let said = unknown(&config, &[roster(&[(1, "http://a:1")])]).to_string();
    assert!(said.contains("add it first"), "{said}");
}

fn config(cluster: &str, state: ClusterState) -> Config {
    let url = cluster.split(',').next().unwrap().split_once('=').unwrap();
    Config {
        name: url.0.into(),
        initial_advertise_peer_urls: vec![url.1.into()],
        initial_cluster: cluster.into(),
        initial_cluster_state: state,
        ..Config::default()
    }
}

/// A directory that this member founded, without a snapshot.
fn directory(config: &Config) -> RecoveredLog {
    let identity =
        Identity { cluster_id: config.cluster_id(), member_id: config.member_id(), joined: false };
    RecoveredLog {
        identity: Some(identity),
        founders: Some(config.members()),
        removed: false,
        new_cluster: None,
        forced: None,
        boot: 2,
        directory: 1,
        hard_state: Default::default(),
        entries: vec![],
        snapshot: None,
        torn: None,
    }
}

#[tokio::test]
async fn a_founder_is_known_by_its_directory_whatever_the_settings_say_of_others() {
    const THREE: &str = "a=http://h:1,b=http://h:2,c=http://h:3";
    let recovered = directory(&config(THREE, ClusterState::New));
    let find = async |config: &Config| Seat::find(config, &recovered).await;
    for state in [ClusterState::New, ClusterState::Existing] {
        for cluster in [
            THREE,
            "a=http://h:1,b=http://h:2,c=http://h:3,d=http://h:4",
            "a=http://h:1,d=http://h:4",
            "renamed=http://h:1,b=http://h:2,c=http://h:3",
        ] {
            let bootstrap = find(&config(cluster, state)).await.unwrap();
            assert_eq!(Some(bootstrap.identity), recovered.identity, "{cluster}");
            assert_eq!(Some(bootstrap.first_members), recovered.founders, "{cluster}");
            assert_eq!(bootstrap.others.len(), 2);
        }
        // Those of another founder, of a member that was added, of another cluster.
        for cluster in [
            "b=http://h:2,a=http://h:1,c=http://h:3",
            "d=http://h:4,a=http://h:1,b=http://h:2,c=http://h:3",
            "a=http://h:2,b=http://h:1,c=http://h:3",
        ] {
            let refused = find(&config(cluster, state)).await;
            assert!(matches!(refused, Err(StartError::ForeignData { .. })), "{cluster}");
        }
        let token = "another".into();
        let other = Config { initial_cluster_token: token, ..config(THREE, state) };
        assert!(matches!(find(&other).await, Err(StartError::ForeignData { .. })));
    }
    let moved = "a=http://moved:1,b=http://h:2,c=http://h:3";
    find(&config(moved, ClusterState::Existing)).await.unwrap();
    let refused = find(&config(moved, ClusterState::New)).await;
    assert!(matches!(refused, Err(StartError::ForeignData { .. })));
}

/// Earlier releases made another id of an address with a slash.
#[tokio::test]
async fn a_founder_with_a_slash_in_its_address_is_known_by_it() {
    let slash = config("a=http://h:1/,b=http://h:2", ClusterState::New);
    let mut members = slash.members();
    let me = members.iter_mut().find(|member| member.name == "a").unwrap();
    me.peer_urls = vec!["http://h:1/".into()];
    me.id = MemberId(crate::config::hash(["http://h:1/", "tenure-cluster"].into_iter()));
    let member_id = me.id;
    members.sort_by_key(|member| member.id);
    let cluster_id = slash.cluster_id_of(&members);
    let identity = Identity { cluster_id, member_id, joined: false };
    for founders in [None, Some(members)] {
        let recovered = RecoveredLog { identity: Some(identity), founders, ..directory(&slash) };
        assert_eq!(Seat::find(&slash, &recovered).await.unwrap().identity, identity);
    }
}

#[tokio::test]
async fn a_founder_without_a_list_is_known_by_its_settings_as_ever() {
    let founded = config("a=http://h:1,b=http://h:2", ClusterState::New);
    let recovered = RecoveredLog { founders: None, ..directory(&founded) };
    assert_eq!(Seat::find(&founded, &recovered).await.unwrap().others.len(), 1);
    for state in [ClusterState::New, ClusterState::Existing] {
        let grown = config("a=http://h:1,b=http://h:2,c=http://h:3", state);
        let refused = Seat::find(&grown, &recovered).await;
        assert!(matches!(refused, Err(StartError::ForeignData { .. })));
    }
}

/// Its cluster's id followed from the settings alone, and nothing said that it was imported.
#[tokio::test]
async fn a_directory_that_an_earlier_release_imported_is_known_by_its_settings() {
    let imported = config("a=http://h:1,b=http://h:2", ClusterState::New);
    let mark = SnapshotMark { index: 1, term: Term(1), ..SnapshotMark::default() };
    let snapshot = Some(SavedSnapshot { mark, path: "snapshot".into() });
    let recovered = RecoveredLog { founders: None, snapshot, ..directory(&imported) };
    assert_eq!(Seat::find(&imported, &recovered).await.unwrap().others.len(), 1);
}

/// Before its snapshot is there, it is no cluster yet.
#[tokio::test]
async fn a_founder_half_way_to_a_forced_cluster_is_refused() {
    let founded = config("a=http://h:1,b=http://h:2", ClusterState::New);
    let mut recovered = directory(&founded);
    recovered.identity.as_mut().unwrap().cluster_id = ClusterId(5);
    for state in [ClusterState::New, ClusterState::Existing] {
        let config = Config { initial_cluster_state: state, ..founded.clone() };
        let refused = Seat::find(&config, &recovered).await;
        assert!(matches!(refused, Err(StartError::ForeignData { .. })));
    }
}
