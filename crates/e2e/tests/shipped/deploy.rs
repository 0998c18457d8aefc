//! deploy/, checked without a cluster of Kubernetes.
//!
//! The manifests are read against Kubernetes' own schemas (crates/e2e/python/manifests.py). What a schema cannot
//! see is asked here: whether things that name each other mean each other, and whether the real
//! binary understands every command line and serves every path that is probed.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use tenure_e2e::{Cluster, Sidecar, eventually, fetch, tools};

const BINARY: &str = "/usr/local/bin/tenure";
/// What stands for the names of your images.
const IMAGES: [&str; 2] = ["example.invalid/tenure:0.1.0", "example.invalid/your-app:1.0.0"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn checked(paths: &[PathBuf]) -> Result<Vec<Value>, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/manifests.py");
    let mut command = Command::new(tools::installed("python"));
    let output = command.arg(script).args(paths).output().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(serde_json::from_slice(&output.stdout).unwrap())
}

fn manifests() -> Vec<Value> {
    let files = fs::read_dir(folder().join("kubernetes")).unwrap();
    let mut files: Vec<_> = files.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 2, "{files:?}");
    checked(&files).unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn of_kind<'a>(all: &'a [Value], kind: &str) -> Vec<&'a Value> {
    all.iter().filter(|one| one["kind"] == kind).collect()
}

fn name(of: &Value) -> &str {
    of.pointer("/metadata/name").or_else(|| of.get("name")).and_then(Value::as_str).unwrap()
}

fn workloads(all: &[Value]) -> Vec<&Value> {
    let found = [of_kind(all, "StatefulSet"), of_kind(all, "Deployment")].concat();
    assert_eq!(found.len(), 2);
    found
}

fn list<'a>(of: &'a Value, at: &str) -> Vec<&'a Value> {
    of.pointer(at).and_then(Value::as_array).map_or(vec![], |list| list.iter().collect())
}

/// All containers of a workload.
fn containers(workload: &Value) -> Vec<&Value> {
    let pod = "/spec/template/spec";
    [list(workload, &format!("{pod}/initContainers")), list(workload, &format!("{pod}/containers"))]
        .concat()
}

/// The one container that runs this verb.
fn running<'a>(all: &'a [Value], verb: &str) -> &'a Value {
    let ours = workloads(all).into_iter().flat_map(containers);
    let mut ours = ours.filter(|one| list(one, "/args").first().is_some_and(|arg| *arg == verb));
    ours.next().unwrap_or_else(|| panic!("nobody runs {verb}"))
}

/// Whether a selector finds the pods of a workload.
fn selects(selector: &Value, workload: &Value) -> bool {
    let labels = &workload["spec"]["template"]["metadata"]["labels"];
    let wanted = selector.as_object().unwrap();
    !wanted.is_empty() && wanted.iter().all(|(name, value)| labels.get(name) == Some(value))
}

fn has_port(container: &Value, port: &Value) -> bool {
    list(container, "/ports")
        .iter()
        .any(|known| known["name"] == *port || known["containerPort"] == *port)
}

#[test]
fn manifests_are_what_kubernetes_accepts() {
    manifests();
}

/// A checker that finds nothing wrong in anything would be worth nothing.
#[test]
fn manifests_check_finds_what_kubernetes_would_refuse() {
    let good = fs::read_to_string(folder().join("kubernetes/server.yaml")).unwrap();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("bad.yaml");
    for (from, to, said) in [
        ("podManagementPolicy:", "podManagmentPolicy:", "podManagmentPolicy"),
        ("replicas: 3", "replicas: three", "three"),
        ("containerPort: 2379", "hostport: 2379", "containerPort"),
        ("  serviceName: tenure-peers\n", "  serviceName: a\n  serviceName: b\n", "given twice"),
    ] {
        assert!(good.contains(from), "{from}");
        fs::write(&path, good.replace(from, to)).unwrap();
        let wrong = checked(std::slice::from_ref(&path)).expect_err(to);
        assert!(wrong.contains(said), "{to}: {wrong}");
    }
}

#[test]
fn manifests_name_only_what_exists() {
    let all = manifests();
    for workload in workloads(&all) {
        assert!(selects(&workload["spec"]["selector"]["matchLabels"], workload));
        let volumes: Vec<&str> = [
            list(workload, "/spec/template/spec/volumes"),
            list(workload, "/spec/volumeClaimTemplates"),
        ]
        .concat()
        .into_iter()
        .map(name)
        .collect();
        for container in containers(workload) {
            for mount in list(container, "/volumeMounts") {
                assert!(volumes.contains(&name(mount)), "{mount} of {volumes:?}");
            }
            for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
                if let Some(get) = container.get(probe).and_then(|probe| probe.get("httpGet")) {
                    assert!(has_port(container, &get["port"]), "{probe}: {get}");
                }
            }
            assert!(IMAGES.contains(&container["image"].as_str().unwrap()), "{container}");
        }
    }
    for service in of_kind(&all, "Service") {
        let found: Vec<_> = workloads(&all)
            .into_iter()
            .filter(|workload| selects(&service["spec"]["selector"], workload))
            .collect();
        assert_eq!(found.len(), 1, "{} goes to one workload", name(service));
        for port in list(service, "/spec/ports") {
            let target = &port["targetPort"];
            let offered = containers(found[0]).into_iter().any(|one| has_port(one, target));
            assert!(offered, "{} goes to {target}", name(service));
        }
    }
    let budget = of_kind(&all, "PodDisruptionBudget")[0];
    let members = of_kind(&all, "StatefulSet")[0];
    assert!(selects(&budget["spec"]["selector"]["matchLabels"], members));
}

/// Members are found by names that the headless service gives, before they are ready, all started at once:
/// they become ready by finding each other.
#[test]
fn manifests_let_members_find_each_other() {
    let all = manifests();
    let members = of_kind(&all, "StatefulSet")[0];
    let governing = members["spec"]["serviceName"].as_str().unwrap();
    let services = of_kind(&all, "Service");
    let service = services.iter().find(|one| name(one) == governing).unwrap();
    assert_eq!(service["spec"]["clusterIP"], "None");
    assert_eq!(service["spec"]["publishNotReadyAddresses"], true);
    assert_eq!(members["spec"]["podManagementPolicy"], "Parallel");
    let hosts: Vec<String> = (0..members["spec"]["replicas"].as_u64().unwrap())
        .map(|n| format!("{0}-{n}.{governing}", name(members)))
        .collect();
    let initial: Vec<String> = hosts
        .iter()
        .map(|host| format!("{}=http://{host}:2380", host.split('.').next().unwrap()))
        .collect();
    let args = list(running(&all, "serve"), "/args");
    let given =
        args.iter().find_map(|arg| arg.as_str()?.strip_prefix("--initial-cluster=")).unwrap();
    assert_eq!(given.split(',').collect::<Vec<_>>(), initial);
    // The sidecar asks the same members, at the port that they serve clients on.
    let endpoints: Vec<String> = hosts.iter().map(|host| format!("{host}:2379")).collect();
    let env = list(running(&all, "sidecar"), "/env");
    let given = env.iter().find(|env| env["name"] == "TENURE_ENDPOINTS").unwrap();
    assert_eq!(given["value"].as_str().unwrap().split(',').collect::<Vec<_>>(), endpoints);
}

#[test]
fn manifests_give_no_more_rights_than_needed() {
    let all = manifests();
    for workload in workloads(&all) {
        let pod = &workload["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        assert_eq!(pod["automountServiceAccountToken"], false);
        // Or a Service called tenure becomes TENURE_PORT and the like.
        assert_eq!(pod["enableServiceLinks"], false);
        for container in containers(workload) {
            let context = &container["securityContext"];
            assert_eq!(context["allowPrivilegeEscalation"], false, "{}", name(container));
            assert_eq!(context["capabilities"]["drop"][0], "ALL", "{}", name(container));
        }
    }
}

/// The arguments as the kubelet would hand them over in a pod of this name.
fn resolved(container: &Value, pod: &str) -> Vec<String> {
    assert_eq!(container["command"], serde_json::json!([BINARY]));
    let mut known = BTreeMap::new();
    for env in list(container, "/env") {
        let field = env.pointer("/valueFrom/fieldRef/fieldPath").and_then(Value::as_str);
        let value = match field {
            Some("metadata.name") => pod,
            Some("status.podIP") => "10.1.2.3",
            Some(other) => panic!("{other} is not known here"),
            None => env["value"].as_str().unwrap(),
        };
        known.insert(name(env).to_owned(), value.to_owned());
    }
    let resolve = |arg: &Value| {
        let mut arg = arg.as_str().unwrap().to_owned();
        for (name, value) in &known {
            arg = arg.replace(&format!("$({name})"), value);
        }
        assert!(!arg.contains("$("), "{arg} names a variable that is not set");
        arg
    };
    list(container, "/args").into_iter().map(resolve).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn manifests_server_understands_its_command_and_serves_its_probes() {
    let all = manifests();
    let container = running(&all, "serve");
    for pod in ["tenure-0", "tenure-1", "tenure-2"] {
        let args = resolved(container, pod);
        let output =
            Command::new(tools::tenure()).args(&args).arg("--print-config").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(said.contains(&format!("name: {pod} # flag")), "{said}");
        // What is kept must be on the volume.
        let mount = list(container, "/volumeMounts")[0]["mountPath"].as_str().unwrap();
        assert!(said.contains(&format!("data-dir: {mount}/")), "{said}");
        for port in list(container, "/ports") {
            let listens =
                format!("listen-{}-urls: \"http://0.0.0.0:{}\"", name(port), port["containerPort"]);
            assert!(said.contains(&listens), "{listens}: {said}");
        }
    }
    let cluster = Cluster::start(1).await;
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().unwrap();
        eventually(path, async || {
            let server = cluster.members[0].client.to_string();
            let (status, _) = fetch(&server, path).await.unwrap();
            if status.contains(" 200 ") { Ok(()) } else { Err(status) }
        })
        .await;
    }
}

/// The sidecar of the manifest is started with its own arguments, but for the addresses that it listens on and asks.
#[tokio::test(flavor = "multi_thread")]
async fn manifests_sidecar_understands_its_command_and_serves_its_probes() {
    let all = manifests();
    let container = running(&all, "sidecar");
    assert_eq!(
        container["restartPolicy"], "Always",
        "or it is no sidecar but a step before the start"
    );
    let help = tools::run(&tools::tenure(), &["--help"]);
    for env in list(container, "/env").into_iter().map(name).filter(|n| n.starts_with("TENURE_")) {
        assert!(help.contains(&format!("[env: {env}")), "{env} is no variable of the client");
    }
    let args = resolved(container, "your-app-7");
    let (listen, others): (Vec<_>, Vec<_>) =
        args[1..].iter().partition(|arg| arg.starts_with("--listen="));
    let port = list(container, "/ports")[0]["containerPort"].to_string();
    assert_eq!(listen, [&format!("--listen=0.0.0.0:{port}")]);
    let cluster = Cluster::start(1).await;
    let others: Vec<&str> = others.into_iter().map(String::as_str).collect();
    let sidecar = Sidecar::with(&cluster.endpoints(), "your-app-7", &others);
    let leads = sidecar.leads().await;
    assert_eq!((&leads["name"], &leads["value"]), (&"your-app-7".into(), &"10.1.2.3:8080".into()));
    for probe in ["livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().unwrap();
        assert_eq!(sidecar.status(path).await, 200, "{path}");
    }
    // A Service goes to the leader only because the others are not ready.
    let other = Sidecar::with(&cluster.endpoints(), "your-app-8", &{
        let mut others = others.clone();
        others.retain(|arg| !arg.starts_with("--identity="));
        others.push("--identity=your-app-8");
        others
    });
    other.follows("your-app-7").await;
    let readiness = container["readinessProbe"]["httpGet"]["path"].as_str().unwrap();
    assert_eq!(other.status(readiness).await, 503);
}

/// The image that the manifests take for granted: the binary's path, and an unprivileged user.
#[test]
fn image_has_what_the_manifests_name() {
    let text = fs::read_to_string(folder().join("Dockerfile")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let last = |word: &str| lines.iter().rfind(|line| line.starts_with(word)).unwrap().to_string();
    assert_eq!(last("ENTRYPOINT"), format!("ENTRYPOINT [\"{BINARY}\"]"));
    assert!(last("COPY --from=build").ends_with(BINARY));
    // What it does without arguments: a member that can write its data, and that takes calls from outside.
    let data = last("WORKDIR").replace("WORKDIR ", "");
    assert!(text.contains(&format!("chown 65532:65532 {data}")), "{text}");
    let given: Vec<String> =
        serde_json::from_str(last("CMD").strip_prefix("CMD ").unwrap()).unwrap();
    assert!(given.contains(&data), "{given:?}");
    let said = Command::new(tools::tenure()).args(&given).arg("--print-config").output().unwrap();
    assert!(said.status.success(), "{said:?}");
    let all = manifests();
    for workload in workloads(&all) {
        let context = &workload["spec"]["template"]["spec"]["securityContext"];
        let user = format!("USER {}:{}", context["runAsUser"], context["runAsGroup"]);
        assert_eq!(last("USER"), user);
    }
}
