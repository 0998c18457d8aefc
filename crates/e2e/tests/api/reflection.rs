//! Server reflection: the services describe themselves, in both versions of it.

use tenure_e2e::Cluster;
use tokio_stream::StreamExt;

/// Lists the services and asks for the file of one symbol.
macro_rules! ask {
    ($version:ident, $channel:expr) => {{
        use tonic_reflection::pb::$version::{
            ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
            server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
        };
        let asked = [
            MessageRequest::ListServices(String::new()),
            MessageRequest::FileContainingSymbol("etcdserverpb.KV.Put".to_owned()),
        ];
        let asked = asked.map(|question| ServerReflectionRequest {
            host: String::new(),
            message_request: Some(question),
        });
        let mut client = ServerReflectionClient::new($channel);
        let answers = client.server_reflection_info(tokio_stream::iter(asked)).await.unwrap();
        let mut answers =
            answers.into_inner().map(|answer| answer.unwrap().message_response.unwrap());
        let MessageResponse::ListServicesResponse(list) = answers.next().await.unwrap() else {
            panic!("no list")
        };
        let MessageResponse::FileDescriptorResponse(files) = answers.next().await.unwrap() else {
            panic!("no file")
        };
        assert!(!files.file_descriptor_proto[0].is_empty());
        list.service.into_iter().map(|service| service.name).collect::<Vec<_>>()
    }};
}

#[tokio::test(flavor = "multi_thread")]
async fn reflection_describes_its_services() {
    let cluster = Cluster::start(1).await;
    let channel = cluster.members[0].client().channel();
    for listed in [ask!(v1, channel.clone()), ask!(v1alpha, channel.clone())] {
        let etcd = ["KV", "Watch", "Lease", "Cluster", "Maintenance", "Auth"];
        let etcd = etcd.map(|service| format!("etcdserverpb.{service}"));
        let lines =
            ["v3electionpb.Election", "v3lockpb.Lock", "tenure.v1.Sessions", "tenure.v1.Elections"]
                .map(str::to_owned);
        for name in etcd.iter().chain(&lines) {
            assert!(listed.contains(name), "{name} is not in {listed:?}");
        }
    }
}
