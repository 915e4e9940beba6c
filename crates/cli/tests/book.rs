//! The commands of the book, run unchanged.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::support::Folder;

/// A command of a page, and the lines that the page shows as its output.
struct Shown<'a> {
    command: String,
    output: Vec<&'a str>,
}

impl Shown<'_> {
    /// Whether the page shows that the command fails.
    fn fails(&self) -> bool {
        let finds = ["flowloom rules explain", "flowloom rules diff"];
        self.output.iter().any(|line| line.starts_with("error: "))
            || finds.iter().any(|verb| self.command.starts_with(verb))
    }

    /// Compares the shown lines with what was printed. The line `…` stands for any lines, and
    /// `…` at the end of a line for the rest of it. Without shown lines, anything may be printed.
    fn compare(&self, printed: &str) -> Result<(), String> {
        let mut rest = printed.lines();
        let mut may_skip = self.output.is_empty();
        for shown in &self.output {
            if *shown == "…" {
                may_skip = true;
                continue;
            }
            let start = shown.strip_suffix('…');
            let is_shown = |line: &str| start.map_or(line == *shown, |start| line.starts_with(start));
            let found = if may_skip { rest.any(is_shown) } else { rest.next().is_some_and(is_shown) };
            if !found {
                return Err(format!("not printed, or not there: {shown}"));
            }
            may_skip = false;
        }
        rest.next().filter(|_| !may_skip).map_or(Ok(()), |line| Err(format!("also printed: {line}")))
    }
}

/// Returns the commands of a page's `console` blocks. A command continues behind a backslash, and
/// up to the end of its here-document.
fn commands(page: &str) -> Vec<Shown<'_>> {
    let mut commands: Vec<Shown<'_>> = Vec::new();
    let (mut is_inside, mut ends) = (false, None);
    for line in page.lines() {
        match (line, commands.last_mut()) {
            ("```console", _) => is_inside = true,
            ("```", _) => is_inside = false,
            _ if !is_inside => {}
            (_, Some(last)) if ends.is_some() => {
                last.command = format!("{}\n{line}", last.command);
                ends = ends.filter(|end| if *end == "END" { line != "END" } else { line.ends_with('\\') });
            }
            (_, last) => match (line.strip_prefix("$ "), last) {
                (Some(command), _) => {
                    commands.push(Shown { command: command.into(), output: Vec::new() });
                    ends = ["END", "\\"].into_iter().find(|end| match *end {
                        "END" => line.ends_with("<< 'END'"),
                        end => line.ends_with(end),
                    });
                }
                (None, Some(last)) => last.output.push(line),
                (None, None) => {}
            },
        }
    }
    commands
}

/// Runs the commands of a page in a folder with the samples. Each must succeed, unless the page
/// shows its error, and print what the page shows.
fn run_all(folder: &Folder, page: &str, commands: &[Shown<'_>]) {
    let program = Path::new(env!("CARGO_BIN_EXE_flowloom")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    // A page may not depend on the clone's path being one word.
    let elsewhere = Folder::new();
    let clone = elsewhere.path("a clone");
    symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), &clone).unwrap();
    fs::create_dir_all(folder.path("traces/small")).unwrap();
    for sample in fs::read_dir(format!("{clone}/traces/small")).unwrap() {
        let sample = sample.unwrap();
        let name = sample.file_name().into_string().unwrap();
        for copy in [name.clone(), format!("traces/small/{name}")] {
            fs::copy(sample.path(), folder.path(&copy)).unwrap();
        }
    }
    for shown in commands {
        let command = &shown.command;
        let output = Command::new("sh")
            .args(["-ec", command])
            .current_dir(folder.path("."))
            .env("PATH", &path)
            .env("FLOWLOOM", &clone)
            .output()
            .unwrap();
        let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        let printed = format!("{stdout}{stderr}");
        assert!(
            output.status.success() != shown.fails(),
            "{page}: $ {command}\n{}\n{printed}",
            output.status
        );
        shown.compare(&printed).unwrap_or_else(|wrong| panic!("{page}: $ {command}\n{wrong}\n\n{printed}"));
    }
}

#[test]
fn every_command_of_the_book_prints_what_its_page_shows() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let pages = [
        ("../README.md", 1),
        ("introduction.md", 3),
        ("start.md", 1),
        ("tutorial.md", 20),
        ("cookbook.md", 20),
        ("faq.md", 10),
        ("researcher.md", 1),
        ("reference.md", 2),
    ];
    for (page, least) in pages {
        let folder = Folder::new();
        let text = fs::read_to_string(docs.join(page)).unwrap();
        let mut commands = commands(&text);
        // The README's commands of cargo are run by CI, in a fresh clone.
        commands.retain(|shown| !shown.command.starts_with("cargo "));
        assert!(commands.len() >= least, "{page}: {}", commands.len());
        run_all(&folder, page, &commands);
    }
}

#[test]
fn documented_output_that_is_not_printed_is_found() {
    let judge = |shown: &[&str]| {
        let output = shown.to_vec();
        Shown { command: "x".into(), output }.compare("one\ntwo 2.5 s\nthree\n").is_ok()
    };
    let right: [&[&str]; 5] =
        [&[], &["one", "two 2.5 s", "three"], &["…", "three"], &["one", "…"], &["…", "two …", "three"]];
    let wrong: [&[&str]; 6] = [
        &["one"],
        &["two …", "…"],
        &["one", "three"],
        &["…", "two"],
        &["…", "two …"],
        &["three", "…", "one"],
    ];
    assert!(right.iter().all(|shown| judge(shown)));
    assert!(!wrong.iter().any(|shown| judge(shown)));
    let page = "```console\n$ a \\\n  b\nout\n$ c << 'END'\nd\nEND\n$ e\n```\n$ f\n";
    let read: Vec<_> = commands(page).into_iter().map(|shown| (shown.command, shown.output)).collect();
    assert_eq!(
        read,
        [("a \\\n  b".into(), vec!["out"]), ("c << 'END'\nd\nEND".into(), vec![]), ("e".into(), vec![])]
    );
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
fn firewall_session_of_the_book_succeeds() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/firewall.md");
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
        let shown = session.split(&format!("{line}\n")).nth(1).unwrap().split(['$', '`']).next().unwrap();
        let shown = Shown { command: command.into(), output: shown.lines().collect() };
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        // Rules differ, and the explained packet is denied.
        let expected = i32::from(shown.fails());
        assert_eq!(output.status.code(), Some(expected), "$ {command}\n{stdout}\n{stderr}");
        shown.compare(&stdout).unwrap_or_else(|wrong| panic!("$ {command}\n{wrong}\n{stdout}"));
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
fn systems_of_the_papers_run_as_documented() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/papers.md");
    let text = fs::read_to_string(page).unwrap();
    let folder = Folder::new();
    // The captures and rules that the table's commands need are made by commands outside of it.
    let (rows, before): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("| "));
    let quoted = |lines: &[&str]| -> Vec<Shown<'_>> {
        let text = lines.join(" ");
        let parts = text.split('`').skip(1).step_by(2).filter(|quoted| quoted.starts_with("flowloom "));
        parts.map(|command| Shown { command: command.into(), output: Vec::new() }).collect()
    };
    let mut all = quoted(&before);
    all.extend(quoted(&rows));
    all.extend(commands(&text));
    assert!(all.len() > 25, "{}", all.len());
    run_all(&folder, "papers.md", &all);
}

#[test]
fn every_page_of_the_book_is_listed_and_every_link_has_a_target() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let read = |path: &Path| {
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let is_page = |name: &str| Path::new(name).extension().is_some_and(|end| end == "md");
    let targets = |text: &str| -> Vec<String> {
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        targets.filter(|target| !target.is_empty() && !target.contains(':')).map(str::to_owned).collect()
    };
    let listed = targets(&read(&book.join("SUMMARY.md")));
    for folder in ["", "adr/", "crate/", "papers/", "performance/"] {
        for entry in fs::read_dir(book.join(folder)).unwrap() {
            let name = format!("{folder}{}", entry.unwrap().file_name().to_str().unwrap());
            let is_listed = name == "SUMMARY.md" || listed.contains(&name);
            assert!(is_listed || !is_page(&name), "{name} is not in SUMMARY.md");
        }
    }
    for name in listed {
        let path = book.join(&name);
        let page = read(&path);
        for included in page.split("{{#include ").skip(1).filter_map(|rest| rest.split("}}").next()) {
            assert!(path.with_file_name(included).is_file(), "{name} includes {included}");
        }
        for target in targets(&page) {
            let target_path = path.with_file_name(&target);
            assert!(target_path.exists(), "{name} links to {target}, which does not exist");
            // Where a repository is read page by page, nothing is included.
            let is_text = !is_page(&target) || !read(&target_path).starts_with("{{#include");
            assert!(is_text, "{name} links to {target}, which only includes another file");
        }
    }
}
