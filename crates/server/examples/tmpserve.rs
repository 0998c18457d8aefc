use tenure_server::{Config, Server};
#[global_allocator]
static A: mimalloc::MiMalloc = mimalloc::MiMalloc;
fn main() {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let a: Vec<String> = std::env::args().collect();
    let mut c = Config { data_dir: a[1].clone().into(), ..Config::default() };
    c.listen_client_urls = vec![a[2].clone()];
    c.advertise_client_urls = vec![a[2].clone()];
    if a.len() > 4 {
        c.name = a[3].clone();
        c.initial_cluster = a[4].clone();
        let url =
            a[4].split(',').find_map(|p| p.strip_prefix(&format!("{}=", a[3]))).unwrap().to_owned();
        c.listen_peer_urls = vec![url.clone()];
        c.initial_advertise_peer_urls = vec![url];
    }
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let r = rt.block_on(async {
        let s = match Server::start(c).await {
            Ok(s) => s,
            Err(e) => {
                eprintln!("{e}");
                std::process::exit(1)
            }
        };
        s.run_until(async {
            let mut t =
                tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
            t.recv().await;
        })
        .await
    });
    if let Err(e) = r {
        eprintln!("stopped: {e}");
        std::process::exit(1)
    }
}
