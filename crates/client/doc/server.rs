// Included by the examples in this crate's documentation: a server of their own to run on.

fn with_server(
    example: impl AsyncFnOnce(String) -> Result<(), Box<dyn std::error::Error>>,
) -> Result<(), Box<dyn std::error::Error>> {
    let home = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let config = tenure_server::Config {
            data_dir: home.path().join("data"),
            listen_client_urls: vec!["http://127.0.0.1:0".to_owned()],
            listen_peer_urls: vec!["http://127.0.0.1:0".to_owned()],
            ..tenure_server::Config::default()
        };
        let server = tenure_server::Server::start(config).await?;
        let endpoints = server.client_addresses()[0].to_string();
        let (stop, stopping) = tokio::sync::oneshot::channel::<()>();
        let runs = tokio::spawn(server.run_until(async { drop(stopping.await) }));
        let done = example(endpoints).await;
        drop(stop);
        runs.await??;
        done
    })
}
