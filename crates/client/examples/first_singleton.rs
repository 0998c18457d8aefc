//! The program of docs/tutorials/first-singleton.md.

use std::{error::Error, ops::ControlFlow, time::Duration};

use tenure::Engine;
use tenure::elector::{ElectorConfig, LeaderElector, Scope};
use tokio::signal::ctrl_c;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let engine = Engine::detect("127.0.0.1:2379").await?;
    let elector = LeaderElector::new(engine, ElectorConfig::new("first-singleton")?)?;
    println!("waiting");
    elector.run_until(ctrl_c(), work).await;
    println!("gave up");
    Ok(())
}

async fn work(scope: Scope) -> ControlFlow<()> {
    println!("leading under token {}", scope.token());
    let mut step = 0;
    while !scope.is_cancelled() {
        step += 1;
        if let Err(refused) = scope.put("steps-done", step.to_string()).await {
            println!("{refused}");
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    ControlFlow::Continue(())
}
