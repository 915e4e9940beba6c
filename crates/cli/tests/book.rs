//! The commands of the book, run unchanged.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::Folder;

/// Returns the commands of a page's `console` blocks.
fn commands(page: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut is_inside = false;
    for line in page.lines() {
        match line {
            "```console" => is_inside = true,
            "```" => is_inside = false,
            _ if is_inside => commands.extend(line.strip_prefix("$ ").map(String::from)),
            _ => {}
        }
    }
    commands
}

/// Runs the commands of a page in a folder; each must succeed.
fn run_all(folder: &Folder, page: &str, commands: &[String]) {
    let program = Path::new(env!("CARGO_BIN_EXE_flowloom")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    for command in commands {
        let output = Command::new("sh")
            .args(["-ec", command])
            .current_dir(folder.path("."))
            .env("PATH", &path)
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{page}: $ {command}\n{}\n{stderr}", output.status);
    }
}

#[test]
fn every_command_of_the_book_ends_well() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src");
    for (page, least) in [("start.md", 9), ("cookbook.md", 9), ("reference.md", 2)] {
        let folder = Folder::new();
        let text = fs::read_to_string(book.join(page)).unwrap();
        let commands = commands(&text);
        assert!(commands.len() >= least, "{page}: {commands:?}");
        run_all(&folder, page, &commands);
    }
}

/// Two interfaces of a bridge in a network of their own, with packets that come in by one of them.
/// The bridge ends once it has loaded new rules.
const BRIDGED: &str = "
    ip link add eth0 type veth peer name west
    ip link add eth1 type veth peer name east
    for name in eth0 eth1 west east; do ip link set $name up; done
    BRIDGE --keep-privileges --format json > bridge.json 2> bridge.err & bridge=$!
    until grep -q 'until it is stopped' bridge.err || ! kill -0 $bridge; do sleep 0.05; done
    touch ready
    flowloom send traffic.pcap --iface west --speed 500 --passes 1000 -q > sent 2>&1 & sender=$!
    for step in $(seq 600); do
        if grep -q 'rules reloaded' bridge.err || ! kill -0 $bridge; then break; fi
        sleep 0.05
    done
    sleep 0.3
    kill $sender $bridge
    wait $bridge
    echo $? > bridge.status
";

#[test]
fn the_session_with_a_firewall_ends_well() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src/firewall.md");
    let session = fs::read_to_string(page).unwrap();
    let saved = session.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let folder = Folder::new();
    folder.write("saved", saved.as_bytes());
    let shim = folder.write("iptables-save", b"#!/bin/sh\ncat saved\n");
    let flowloom = Path::new(env!("CARGO_BIN_EXE_flowloom")).parent().unwrap();
    let path = format!("{}:{}:{}", folder.path("."), flowloom.display(), std::env::var("PATH").unwrap());
    let start = |program: &[&str]| {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]).current_dir(folder.path(".")).env("PATH", &path);
        command
    };
    assert!(start(&["chmod", "+x", &shim]).status().unwrap().success());
    let generate = ["flowloom", "generate", "trace", "--packets", "2k", "-o", "traffic.pcap", "-q"];
    assert!(start(&generate).status().unwrap().success());
    let has_networks = start(&["unshare", "-n", "sh", "-c", "ip link add eth0 type veth peer name west"])
        .output()
        .is_ok_and(|output| output.status.success());
    let mut bridge = None;
    let lines = session.lines().filter(|line| line.starts_with("$ ") || line.starts_with("# flowloom"));
    for line in lines {
        let command = &line[2..];
        if line.starts_with("# ") {
            if has_networks {
                let script = BRIDGED.replace("BRIDGE", command);
                bridge = Some(start(&["unshare", "-n", "sh", "-c", &script]).spawn().unwrap());
                while !Path::new(&folder.path("ready")).exists() {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
            } else {
                eprintln!("not run, without network namespaces: {command}");
            }
            continue;
        }
        let output = start(&["sh", "-ec", command]).output().unwrap();
        // Rules differ, and the explained packet is denied.
        let expected = ["flowloom rules diff", "flowloom rules explain"];
        let expected = i32::from(expected.iter().any(|verb| command.starts_with(verb)));
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(expected), "$ {command}\n{stdout}\n{stderr}");
        // What the page shows behind a command is what the command says.
        let shown = session.split(&format!("{line}\n")).nth(1).unwrap().split(['$', '`']).next().unwrap();
        assert!(shown.is_empty() || shown == stdout, "$ {command}\n{stdout}");
    }
    if let Some(mut bridge) = bridge {
        assert!(bridge.wait().unwrap().success());
        let said = fs::read_to_string(folder.path("bridge.err")).unwrap();
        let result: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(folder.path("bridge.json")).unwrap()).expect(&said);
        assert_eq!(fs::read_to_string(folder.path("bridge.status")).unwrap().trim(), "0", "{said}");
        assert_eq!(
            (&result["firewall"]["reloads"], &result["balanced"]),
            (&1.into(), &true.into()),
            "{said}"
        );
        assert!(result["ports"][0]["received"].as_u64().unwrap() > 50, "{result:#}");
    }
}

#[test]
fn the_papers_systems_run_as_their_table_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src/papers.md");
    let text = fs::read_to_string(page).unwrap();
    let folder = Folder::new();
    // The captures and rules that the table's commands need are made by commands outside of it.
    let (rows, before): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("| "));
    let quoted = |lines: &[&str]| -> Vec<String> {
        let text = lines.join(" ");
        let parts = text.split('`').skip(1).step_by(2);
        parts.filter(|quoted| quoted.starts_with("flowloom ")).map(String::from).collect()
    };
    let commands = [quoted(&before), quoted(&rows), commands(&text)].concat();
    assert!(commands.len() > 25, "{commands:?}");
    run_all(&folder, "papers.md", &commands);
}

#[test]
fn every_page_of_the_book_is_listed_and_every_listed_page_is_there() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src");
    let summary = fs::read_to_string(book.join("SUMMARY.md")).unwrap();
    let listed: Vec<&str> = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    let mut pages = Vec::new();
    for folder in ["", "adr/", "crate/", "performance/"] {
        for entry in fs::read_dir(book.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap();
            pages
                .extend(path.extension().is_some_and(|end| end == "md").then(|| format!("{folder}{name}")));
        }
    }
    for name in pages {
        assert!(name == "SUMMARY.md" || listed.contains(&name.as_str()), "{name} is not in SUMMARY.md");
    }
    for name in listed {
        let page = fs::read_to_string(book.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        for included in page.split("{{#include ").skip(1).filter_map(|rest| rest.split("}}").next()) {
            assert!(book.join(name).with_file_name(included).is_file(), "{name} includes {included}");
        }
    }
}
