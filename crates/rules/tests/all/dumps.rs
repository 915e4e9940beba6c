//! Rulesets in the style of the programs that write them: each loads completely, and the same lines
//! decide packets as in the kernel.
#![cfg(feature = "std")]

use std::path::Path;

use flowloom_classifier::FiveTuple;
use flowloom_rules::firewall::{Assume, ConnectionState, Field, Packet, Policy};
use flowloom_rules::load::{Form, LoadOptions, load};

/// A ruleset, the packets, and the line that decides each.
struct Case {
    file: &'static str,
    table: Option<&'static str>,
    chain: &'static str,
    /// Sender, receiver, protocol, receiver's port.
    packet: (&'static str, &'static str, u8, u16),
    state: ConnectionState,
    input: &'static str,
    output: &'static str,
    assume: Assume,
    /// Part of the line.
    line: &'static str,
}

const NEW: Case = Case {
    file: "",
    table: None,
    chain: "INPUT",
    packet: ("8.8.8.8", "192.0.2.9", 6, 22),
    state: ConnectionState::New,
    input: "eth0",
    output: "",
    assume: Assume::NoMatch,
    line: "",
};

fn text_of(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dumps").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn policy_of(file: &str, table: Option<&str>, chain: &str) -> Policy {
    let text = text_of(file);
    let options = LoadOptions {
        table: table.map(str::to_owned),
        chain: Some(chain.to_owned()),
        ..LoadOptions::default()
    };
    load(&text, Form::detect(file, &text), &options).unwrap_or_else(|errors| panic!("{file}: {errors}"))
}

fn check(case: &Case) {
    let policy = policy_of(case.file, case.table, case.chain);
    let (source, destination, protocol, port) = case.packet;
    let tuple = FiveTuple {
        source: source.parse().expect("an address"),
        destination: destination.parse().expect("an address"),
        source_port: 40_000,
        destination_port: port,
        protocol,
    };
    let mut packet = Packet::new(tuple);
    packet.state = Some(case.state);
    (packet.input, packet.output) = (Some(case.input), Some(case.output));
    (packet.tcp_flags, packet.icmp) = (Some(2), Some((8, 0)));
    let found = policy.first_match(&packet, case.assume).expect("a chain has a policy");
    let line = policy.source(found).map_or(0, |source| source.line);
    let text = text_of(case.file);
    let shown = text.lines().nth(line - 1).unwrap_or("");
    assert!(shown.contains(case.line), "{} {}: {tuple}: line {line}: {shown}", case.file, case.chain);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a packet for each line that is looked at")]
fn firewalls_of_hosts_decide_as_in_the_kernel() {
    let ufw = Case { file: "ufw.iptables", ..NEW };
    let match_all = Assume::Match;
    for case in [
        Case { line: "-A ufw-not-local -j DROP", ..ufw },
        Case { input: "lo", line: "-A ufw-before-input -i lo", ..ufw },
        Case { state: ConnectionState::Established, line: "RELATED,ESTABLISHED -j ACCEPT", ..ufw },
        Case { packet: ("8.8.8.8", "192.0.2.9", 1, 0), line: "--icmp-type 8 -j ACCEPT", ..ufw },
        Case { assume: match_all, line: "-A ufw-user-limit -j REJECT", ..ufw },
        Case {
            assume: match_all,
            packet: ("8.8.8.8", "192.0.2.9", 6, 443),
            line: "--dports 80,443",
            ..ufw
        },
        Case {
            file: "fail2ban.iptables",
            packet: ("198.51.100.23", "192.0.2.9", 6, 22),
            line: "198.51.100.23",
            ..NEW
        },
        Case { file: "fail2ban.iptables", line: ":INPUT ACCEPT", ..NEW },
        Case { file: "shorewall.iptables", line: "22,80,443,1024:65535", ..NEW },
        Case {
            file: "shorewall.iptables",
            packet: ("198.51.100.12", "192.0.2.9", 6, 25),
            line: "--src-range",
            ..NEW
        },
        Case { file: "shorewall.iptables", input: "eth7", line: "-A reject -p tcp", ..NEW },
        Case {
            file: "csf.iptables",
            packet: ("8.8.8.8", "192.0.2.9", 6, 53),
            line: "-s 8.8.8.8/32",
            ..NEW
        },
        Case { file: "csf.iptables", line: "-A SYNFLOOD -j DROP", ..NEW },
        Case {
            file: "csf.iptables",
            assume: match_all,
            packet: ("9.9.9.9", "192.0.2.9", 6, 80),
            line: "BLOCKDROP -j DROP",
            ..NEW
        },
        Case {
            file: "plesk.iptables",
            packet: ("8.8.8.8", "192.0.2.9", 6, 8443),
            line: "--dport 8443",
            ..NEW
        },
        Case { file: "plesk.iptables", line: "-A INPUT -j DROP", ..NEW },
        Case { file: "ferm.iptables", line: "--dport ssh", ..NEW },
        Case { file: "ferm.iptables", packet: ("192.0.2.7", "192.0.2.9", 6, 443), line: "80,443", ..NEW },
        Case {
            file: "ferm.iptables",
            assume: match_all,
            packet: ("8.8.8.8", "192.0.2.9", 6, 25),
            line: "--pol ipsec",
            ..NEW
        },
        Case {
            file: "synology.iptables",
            packet: ("192.168.1.9", "192.168.1.2", 6, 5001),
            line: ":INPUT ACCEPT",
            ..NEW
        },
        Case { file: "synology.iptables", line: "-i eth0 -j DROP", ..NEW },
        Case { file: "firewalld.nft", chain: "input", line: "tcp dport 22 accept", ..NEW },
        Case {
            file: "firewalld.nft",
            chain: "input",
            packet: ("10.1.2.3", "192.0.2.9", 6, 5433),
            line: "5432-5433",
            ..NEW
        },
        Case {
            file: "firewalld.nft",
            chain: "input",
            packet: ("192.0.2.4", "192.0.2.9", 6, 22),
            line: "host-prohibited",
            ..NEW
        },
        Case { file: "crowdsec.nft", chain: "input", line: "tcp dport { 22, 80, 443 } accept", ..NEW },
        Case {
            file: "crowdsec.nft",
            chain: "input",
            assume: match_all,
            line: "@crowdsec-blacklists",
            ..NEW
        },
        Case {
            file: "ip6.iptables",
            packet: ("2001:db8::1", "2001:db8::2", 6, 22),
            line: "--dport 22",
            ..NEW
        },
        Case {
            file: "ip6.iptables",
            packet: ("2001:db8::1", "2001:db8::2", 17, 53),
            line: "icmp6-adm-prohibited",
            ..NEW
        },
        Case { file: "proxmox.iptables", line: "PVEFW-HOST-IN -j DROP", ..NEW },
        Case {
            file: "proxmox.iptables",
            packet: ("8.8.8.8", "192.0.2.9", 17, 445),
            line: "--dports 135,445",
            ..NEW
        },
        Case {
            file: "tailscale.iptables",
            packet: ("100.70.1.1", "192.0.2.9", 6, 22),
            line: "-s 100.64.0.0/10 ! -i",
            ..NEW
        },
        Case {
            file: "tailscale.iptables",
            packet: ("100.70.1.1", "192.0.2.9", 6, 22),
            input: "tailscale0",
            line: "-A ts-input -i tailscale0",
            ..NEW
        },
    ] {
        check(&case);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a packet for each line that is looked at")]
fn firewalls_of_routers_and_of_containers_decide_as_in_the_kernel() {
    let forward = Case { chain: "FORWARD", output: "docker0", ..NEW };
    let docker = Case { file: "docker.iptables", ..forward };
    let to = |port| ("8.8.8.8", "172.18.0.2", 6, port);
    for case in [
        Case { packet: to(80), output: "br-5f2d", line: "-A DOCKER -d 172.18.0.2/32", ..docker },
        Case { packet: to(81), output: "br-5f2d", line: ":FORWARD DROP", ..docker },
        Case { input: "docker0", output: "br-5f2d", packet: to(80), line: "-o br-5f2d -j DROP", ..docker },
        Case { input: "docker0", output: "eth0", line: "-i docker0 ! -o docker0 -j ACCEPT", ..docker },
        Case {
            table: Some("nat"),
            chain: "PREROUTING",
            output: "",
            packet: to(8080),
            line: ":PREROUTING",
            ..docker
        },
        Case {
            table: Some("nat"),
            chain: "PREROUTING",
            output: "",
            packet: to(8080),
            assume: Assume::Match,
            line: "DNAT",
            ..docker
        },
        Case {
            file: "libvirt.iptables",
            input: "virbr0",
            output: "eth0",
            packet: ("192.168.122.5", "8.8.8.8", 6, 80),
            line: "-s 192.168.122.0/24",
            ..forward
        },
        Case {
            file: "libvirt.iptables",
            input: "eth0",
            output: "virbr0",
            packet: ("8.8.8.8", "192.168.122.5", 6, 80),
            line: "-A LIBVIRT_FWI -o virbr0 -j REJECT",
            ..forward
        },
        Case {
            file: "kube-proxy.iptables",
            packet: ("8.8.8.8", "127.0.0.1", 6, 80),
            line: "dropping marked packets",
            assume: Assume::Match,
            ..NEW
        },
        Case {
            file: "kube-proxy.iptables",
            table: Some("nat"),
            chain: "PREROUTING",
            packet: ("8.8.8.8", "10.96.0.10", 17, 53),
            line: ":PREROUTING",
            ..NEW
        },
        Case {
            file: "k3s.iptables",
            packet: ("10.42.1.1", "10.42.0.9", 6, 5432),
            line: "pod's local node",
            assume: Assume::Match,
            state: ConnectionState::New,
            ..forward
        },
        Case {
            file: "calico.iptables",
            input: "cali1234",
            output: "eth0",
            line: "-A cali-fw-cali1234 -m comment --comment \"cali:G\" -j DROP",
            ..forward
        },
        Case {
            file: "calico.iptables",
            packet: ("10.0.0.9", "192.0.2.9", 4, 0),
            assume: Assume::Match,
            line: "Allow IPIP",
            ..NEW
        },
        Case {
            file: "cilium.iptables",
            output: "cilium_host",
            line: "cilium_host forward accept",
            ..forward
        },
        Case {
            file: "cilium.iptables",
            table: Some("mangle"),
            chain: "PREROUTING",
            assume: Assume::Match,
            line: "TPROXY",
            ..NEW
        },
        Case { file: "neutron.iptables", line: ":FORWARD ACCEPT", ..forward },
        Case {
            file: "istio.iptables",
            table: Some("nat"),
            chain: "PREROUTING",
            line: "--to-ports 15006",
            ..NEW
        },
        Case {
            file: "istio.iptables",
            table: Some("nat"),
            chain: "PREROUTING",
            packet: ("8.8.8.8", "192.0.2.9", 6, 15090),
            line: ":PREROUTING",
            ..NEW
        },
        Case {
            file: "suricata-ips.iptables",
            assume: Assume::Match,
            line: "NFQUEUE --queue-num 0",
            ..forward
        },
        Case {
            file: "openwrt-fw3.iptables",
            input: "eth1",
            packet: ("8.8.8.8", "192.0.2.9", 17, 68),
            line: "Allow-DHCP-Renew",
            ..NEW
        },
        Case {
            file: "openwrt-fw3.iptables",
            input: "eth1",
            packet: ("8.8.8.8", "192.0.2.9", 17, 53),
            line: "--reject-with icmp-port-unreachable",
            ..NEW
        },
        Case {
            file: "openwrt-fw3.iptables",
            state: ConnectionState::Established,
            line: "FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
            ..forward
        },
        Case {
            file: "openwrt-fw4.nft",
            chain: "input",
            input: "eth1",
            packet: ("8.8.8.8", "192.0.2.9", 17, 68),
            line: "Allow-DHCP-Renew",
            ..NEW
        },
        Case {
            file: "openwrt-fw4.nft",
            chain: "input",
            input: "eth1",
            packet: ("8.8.8.8", "192.0.2.9", 17, 53),
            line: "Reject any other traffic",
            ..NEW
        },
        Case {
            file: "openwrt-fw4.nft",
            chain: "input",
            input: "br-lan",
            packet: ("8.8.8.8", "192.0.2.9", 17, 53),
            line: "accept lan",
            ..NEW
        },
        Case {
            file: "wg-quick.nft",
            chain: "prerouting",
            packet: ("8.8.8.8", "10.66.66.2", 6, 80),
            assume: Assume::Match,
            line: "10.66.66.2",
            ..NEW
        },
        Case {
            file: "netavark.nft",
            input: "podman1",
            output: "podman3",
            line: "oifname \"podman3\" drop",
            ..forward
        },
        Case {
            file: "netavark.nft",
            input: "podman3",
            packet: ("10.88.0.4", "8.8.8.8", 6, 80),
            line: "ip saddr 10.88.0.0/16 accept",
            ..forward
        },
        Case { file: "lxd.nft", chain: "forward", output: "lxdbr0", line: "ip version 4 oifname", ..NEW },
        Case {
            file: "lxd.nft",
            chain: "input",
            input: "lxdbr0",
            packet: ("8.8.8.8", "192.0.2.9", 17, 67),
            line: "udp dport { 53, 67 }",
            ..NEW
        },
        Case {
            file: "vyos.nft",
            chain: "input",
            packet: ("10.0.0.5", "192.0.2.9", 6, 8005),
            line: "@P_ADMIN",
            ..NEW
        },
        Case {
            file: "vyos.nft",
            chain: "input",
            input: "eth2",
            packet: ("10.0.0.5", "192.0.2.9", 6, 8005),
            line: "LAN_LOCAL default-action",
            ..NEW
        },
    ] {
        check(&case);
    }
}

#[test]
fn every_chain_of_every_table_loads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dumps");
    let (mut files, mut decidable) = (0, 0);
    for entry in std::fs::read_dir(folder).expect("the folder of rulesets") {
        let path = entry.expect("a file").path();
        let file = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let text = text_of(&file);
        files += 1;
        let mut needs_nothing = true;
        if Form::detect(&file, &text) == Form::Iptables {
            for table in text.lines().filter_map(|line| line.strip_prefix('*')) {
                for chain in flowloom_rules::load::iptables::chains(&text, table) {
                    let policy = policy_of(&file, Some(table), chain);
                    needs_nothing &= policy
                        .undecidable(flowloom_rules::firewall::Knowledge::default())
                        .iter()
                        .all(|one| one.field != Field::Nothing);
                }
            }
        } else {
            for chain in flowloom_rules::load::nft::chains(&text) {
                policy_of(&file, None, &chain);
            }
            needs_nothing = false;
        }
        decidable += usize::from(needs_nothing);
    }
    assert!(files >= 27, "{files}");
    assert!(decidable >= 2, "some ask for nothing but headers, states and interfaces: {decidable}");
}
