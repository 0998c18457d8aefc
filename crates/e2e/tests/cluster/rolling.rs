//! All members restarted one after the other, as for an upgrade.

use tenure::grpc::Client;
use tenure_e2e::{Cluster, Load, Plan, Register};

const WRITERS: usize = 8;
/// Writes between two restarts.
const BETWEEN: usize = 100;

/// The client retries as etcd's own: reads always, writes only when nothing was sent.
#[tokio::test(flavor = "multi_thread")]
async fn no_request_fails_while_every_member_is_restarted() {
    for count in [3, 5] {
        let mut cluster = Cluster::with(count, Plan::flags(&["--snapshot-count", "300"])).await;
        let clients: Vec<Client> = (0..WRITERS).map(|_| cluster.client()).collect();
        let load = Load::start("load", clients);
        let register = Register::start(&cluster, "register");
        for member in 0..count {
            load.progress(BETWEEN).await;
            assert!(cluster.members[member].stop().await.success());
            load.progress(BETWEEN / 2).await;
            cluster.members[member].start();
            cluster.members[member].ready().await;
        }
        load.progress(BETWEEN).await;
        register.stop().await;
        let record = load.stop().await;
        record.assert_no_failure();
        record.check(&cluster.client(), "load").await;
        cluster.same_everywhere().await;
    }
}
