//! Compare and swap from the shell: `tenure put --if-…`.

use tenure_e2e::{Cluster, Ctl, Said};

fn leases(ctl: &Ctl) -> usize {
    ctl.run(&["lease", "list"]).ok().lines().count() - 1
}

fn refused(said: &Said, why: &str) {
    assert_eq!((said.code, said.err.as_str()), (Some(3), why), "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn key_is_written_only_if_it_is_as_expected() {
    let cluster = Cluster::start(1).await;
    let ctl = Ctl::ours(&cluster.members[0]);
    let put = |words: &str| ctl.run(&words.split(' ').collect::<Vec<_>>());
    let value = || ctl.run(&["get", "k", "--print-value-only"]).ok();

    refused(&put("put k 1 --if-value 0"), "not written: expected value \"0\", found no such key");
    refused(&put("put k 1 --if-revision 7"), "not written: expected revision 7, found no such key");
    assert_eq!(put("put k 1 --if-absent").ok(), "OK\n");
    let found = "found value \"1\" of revision 2";
    refused(&put("put k 2 --if-absent"), &format!("not written: expected no such key, {found}"));
    refused(&put("put k 2 --if-value 9"), &format!("not written: expected value \"9\", {found}"));
    refused(&put("put k 2 --if-revision 1"), &format!("not written: expected revision 1, {found}"));
    assert_eq!(value(), "1\n", "nothing was changed");
    put("put k 2 --if-value 1").ok();
    put("put k 3 --if-revision 3").ok();
    assert_eq!(value(), "3\n");
    assert_eq!(put("put k 4 --if-absent --if-value 3").code, Some(2), "one condition at the most");
}

#[tokio::test(flavor = "multi_thread")]
async fn lease_for_a_key_that_was_not_written_is_given_back() {
    let cluster = Cluster::start(1).await;
    let ctl = Ctl::ours(&cluster.members[0]);
    let before = leases(&ctl);
    let put = |value| ctl.run(&["put", "k", value, "--if-absent", "--ttl", "60s"]);
    assert_eq!(put("1").code, Some(0));
    assert_eq!(leases(&ctl), before + 1);
    assert_eq!(put("2").code, Some(3));
    assert_eq!(leases(&ctl), before + 1, "the second one's was given back");
    let found = ctl.run(&["get", "k", "-w", "json"]).ok();
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert!(found["kvs"][0]["lease"].as_i64().is_some_and(|lease| lease != 0), "{found}");
}
