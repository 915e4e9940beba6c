use flowloom_flow_key::FiveTuple;

use super::*;
use crate::firewall::{Assume, Packet};

const MAP: &str = "\
apiVersion: v1
kind: List
items:
- kind: Namespace
  metadata: {name: shop, labels: {team: red}}
- kind: Namespace
  metadata: {name: ops, labels: {team: blue}}
- kind: Pod
  metadata: {name: web, namespace: shop, labels: {app: web, tier: front}}
  spec: {containers: [{ports: [{name: http, containerPort: 8080}]}]}
  status: {phase: Running, podIP: 10.1.0.5, podIPs: [{ip: 10.1.0.5}, {ip: 'fd00::5'}]}
- kind: Pod
  metadata: {name: db, namespace: shop, labels: {app: db}}
  status: {podIP: 10.1.0.9}
- kind: Pod
  metadata: {name: probe, namespace: ops, labels: {app: probe}}
  status: {podIP: 10.1.7.1}
- kind: Pod
  metadata: {name: old, namespace: shop, labels: {app: web}}
  status: {phase: Succeeded, podIP: 10.1.0.77}
";

const WEB: [u8; 4] = [10, 1, 0, 5];
const DB: [u8; 4] = [10, 1, 0, 9];
const PROBE: [u8; 4] = [10, 1, 7, 1];
const OUTSIDE: [u8; 4] = [198, 51, 100, 7];

fn policy(spec: &str) -> String {
    let head = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: p, namespace: shop}\nspec:\n";
    let indented: Vec<String> = spec.lines().map(|line| format!("  {line}")).collect();
    format!("{head}{}\n---\n", indented.join("\n"))
}

fn read(text: &str, chain: &str) -> Result<Policy, LoadErrors> {
    load(text, &Options { chain, addresses: Some(MAP), ..Options::default() })
}

/// Whether a packet passes.
fn passes(policy: &Policy, source: [u8; 4], destination: [u8; 4], port: u16) -> bool {
    passes_by(policy, source, destination, port, 6)
}

fn passes_by(policy: &Policy, source: [u8; 4], destination: [u8; 4], port: u16, protocol: u8) -> bool {
    let packet = Packet::new(FiveTuple::v4(source, destination, 40_000, port, protocol));
    let found = policy.first_match(&packet, Assume::NoMatch).and_then(|id| policy.set().get(id));
    found.and_then(|rule| rule.action) == Some(Action::Accept)
}

#[test]
fn selected_pod_accepts_only_listed_peers_and_others_accept_all() {
    let text = policy(
        "podSelector: {matchLabels: {app: db}}\ningress:\n- from:\n  - podSelector: {matchLabels: {app: web}}\n  \
         - namespaceSelector: {matchLabels: {team: blue}}\n    podSelector: {}\n  ports:\n  - {port: 5432}\n  \
         - {protocol: UDP, port: 100, endPort: 200}\n- from: [{ipBlock: {cidr: 198.51.100.0/24, except: [198.51.100.128/25]}}]",
    );
    for chain in ["cluster", "ingress"] {
        let policy = read(&text, chain).unwrap();
        assert!(passes(&policy, WEB, DB, 5432) && passes(&policy, PROBE, DB, 5432));
        assert!(!passes(&policy, WEB, DB, 5433) && !passes(&policy, [10, 1, 0, 77], DB, 5432));
        assert!(passes_by(&policy, WEB, DB, 150, 17) && !passes_by(&policy, WEB, DB, 201, 17));
        assert!(passes(&policy, OUTSIDE, DB, 1) && !passes(&policy, [198, 51, 100, 200], DB, 1));
        assert!(passes(&policy, DB, OUTSIDE, 1), "no policy of egress");
        assert!(passes(&policy, OUTSIDE, WEB, 1), "no policy selects it");
    }
}

#[test]
fn packet_must_pass_egress_and_ingress_policies() {
    let text = policy("podSelector: {}\npolicyTypes: [Ingress, Egress]")
        + &policy(
            "podSelector: {matchLabels: {app: web}}\negress: [{to: [{podSelector: {}}], ports: [{port: 5432}]}]\npolicyTypes: [Egress]",
        )
        + &policy(
            "podSelector: {matchExpressions: [{key: app, operator: NotIn, values: [web]}]}\ningress: [{}]",
        );
    let both = read(&text, "cluster").unwrap();
    assert!(passes(&both, WEB, DB, 5432) && !passes(&both, WEB, DB, 80));
    assert!(!passes(&both, DB, WEB, 5432), "nothing lets it leave");
    assert!(passes(&both, OUTSIDE, DB, 80) && !passes(&both, OUTSIDE, WEB, 80));
    let (egress, ingress) = (read(&text, "egress").unwrap(), read(&text, "ingress").unwrap());
    assert!(passes(&ingress, WEB, DB, 80) && !passes(&egress, WEB, DB, 80));
}

#[test]
fn named_ports_are_looked_up_at_the_receiving_pod() {
    let ingress = read(
        &policy("podSelector: {matchLabels: {tier: front}}\ningress: [{ports: [{port: http}]}]"),
        "cluster",
    );
    let ingress = ingress.unwrap();
    assert!(passes(&ingress, OUTSIDE, WEB, 8080) && !passes(&ingress, OUTSIDE, WEB, 80));
    let v6 = |port| {
        Packet::new(FiveTuple::v6([9; 16], [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5], 1, port, 6))
    };
    let action =
        |port| ingress.first_match(&v6(port), Assume::NoMatch).and_then(|id| ingress.set().get(id)?.action);
    assert_eq!([action(8080), action(80)], [Some(Action::Accept), Some(Action::Deny)]);
    let egress = policy(
        "podSelector: {matchLabels: {app: db}}\npolicyTypes: [Egress]\negress: [{to: [{podSelector: {}}], ports: [{port: http}]}]",
    );
    let egress = read(&egress, "egress").unwrap();
    assert!(passes(&egress, DB, WEB, 8080) && !passes(&egress, DB, PROBE, 8080));
}

#[test]
fn policy_without_a_pod_is_noted_and_unknown_field_is_an_error() {
    let text = policy("podSelector: {matchLabels: {app: none}}") + "kind: Service\n";
    let notes: Vec<String> =
        read(&text, "cluster").unwrap().notes().iter().map(|n| n.text.clone()).collect();
    assert!(notes.iter().any(|note| note.contains("selects no pod")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("Service")), "{notes:?}");
    let error = |text: &str| read(text, "cluster").unwrap_err().to_string();
    for (spec, says) in [
        ("podSelector: {}\ningres: []", "6:1: unsupported field 'ingres'"),
        ("podSelector: {}\ningress: [{from: [{}]}]", "a peer without"),
        ("podSelector: {}\ningress: [{ports: [{port: 70000}]}]", "from 1 to 65535"),
        ("podSelector: {}\ningress: [{ports: [{port: 9, endPort: 8}]}]", "endPort"),
        ("podSelector: {}\ningress: [{ports: [{protocol: ICMP}]}]", "'ICMP' is not a protocol"),
        ("podSelector: {}\ningress: [{from: [{ipBlock: {cidr: 10.0.0.0/33}}]}]", "'10.0.0.0/33'"),
        (
            "podSelector: {}\ningress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/9]}}]}]",
            "outside",
        ),
        ("podSelector: {matchExpressions: [{key: a, operator: Gt}]}", "'Gt' is not an operator"),
        ("podSelector: {}\npolicyTypes: [Both]", "'Both' is not a policy type"),
    ] {
        let text = error(&policy(spec));
        assert!(text.contains(says), "{spec}: {text}");
    }
    let calico = policy("podSelector: {}").replace("networking.k8s.io/v1", "projectcalico.org/v3");
    assert!(error(&calico).contains("unsupported apiVersion"), "{}", error(&calico));
    let alone = load(&policy("podSelector: {}"), &Options::default()).unwrap_err().to_string();
    assert!(alone.contains("--addresses"), "{alone}");
}

#[test]
fn json_of_kubectl_is_read_too() {
    let text = r#"{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy", "metadata": {"name": "a", "namespace": "shop"},
        "spec": {"podSelector": {"matchLabels": {"app": "db"}}, "policyTypes": ["Ingress"]}}]}"#;
    assert!(is_kubernetes(text) && is_kubernetes(MAP) && !is_kubernetes("a: b\nkind of\n"));
    let policy = read(text, "cluster").unwrap();
    assert!(!passes(&policy, WEB, DB, 1) && passes(&policy, DB, WEB, 1));
}
