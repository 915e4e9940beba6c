//! `replay --rules`: verdicts, the oracle, rules that are reloaded while packets flow.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fixtures::THREE_RULES;
use crate::interrupt::send;
use crate::support::{Folder, Outcome, check_balance, command, flowloom, number, replay};

const ALL: &str = "[[rule]]\naction = \"accept\"\n";
const NONE: &str = "[[rule]]\naction = \"deny\"\n";

/// Flows with their worker, and flows that move among workers.
const LAYOUTS: [&[&str]; 5] = [
    &[],
    &["--workers", "1"],
    &["--workers", "3"],
    &["--workers", "3", "--scheduler", "flowpin"],
    &["--workers", "2", "--scheduler", "lfb"],
];

fn hits(document: &Value, what: &str, of: &str) -> u64 {
    number(&document["firewall"][what], of)
}

#[test]
fn every_packet_and_flow_is_accepted_or_denied_and_the_oracle_agrees() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let rules = folder.write("rules", THREE_RULES.as_bytes());
    let mut seen = Vec::new();
    for how in [
        &[][..],
        &["--strict-tcp"],
        &["--per-packet"],
        &["--default", "accept", "--action", "deny"],
        &["--timeout", "0.01"],
    ] {
        let mut digests = Vec::new();
        // If flows move, a worker that is ahead may end one by its timeout.
        let layouts = if how[..] == ["--timeout", "0.01"] { &LAYOUTS[..3] } else { &LAYOUTS };
        for layout in layouts {
            let base = [trace.as_str(), "--rules", &rules, "--verify"];
            let document = replay(&[&base[..], how, layout].concat());
            assert_eq!(document["run"]["app"], "firewall");
            assert_eq!(document["verify"]["agrees"], true, "{how:?} {layout:?}");
            let sum = |of: &str| hits(&document, "accepted", of) + hits(&document, "denied", of);
            assert_eq!(sum("packets"), number(&document, "processed"), "{how:?}");
            assert_eq!(hits(&document, "denied", "packets"), number(&document, "denied"), "{how:?}");
            let workers = document["workers"].as_array().unwrap();
            // Workers share these flows, so they are not counted by worker.
            let begun: Option<u64> = workers.iter().map(|worker| worker["flows"].as_u64()).sum();
            assert!(begun.is_none_or(|begun| begun == sum("flows")), "{how:?} {layout:?}");
            let listed = document["firewall"]["top"].as_array().unwrap();
            let by_rule: u64 = listed.iter().map(|rule| number(rule, "packets")).sum();
            let unmatched = hits(&document, "unmatched", "packets");
            let not_opened = hits(&document, "not_opened", "packets");
            assert_eq!(by_rule + unmatched + not_opened, number(&document, "processed"), "{how:?}");
            assert_eq!(not_opened > 0, how == ["--strict-tcp"]);
            digests.push(document["digest"].clone());
        }
        assert!(digests.windows(2).all(|pair| pair[0] == pair[1]), "{how:?}");
        seen.push(digests.pop().unwrap());
    }
    for (i, digest) in seen[1..].iter().enumerate() {
        assert!(!seen[..=i].contains(digest), "options change what is found");
    }
}

#[test]
fn records_have_the_verdict_and_the_rule_of_their_packets() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let rules = folder.write("rules", THREE_RULES.as_bytes());
    let flows = folder.path("flows.csv");
    replay(&[&trace, "--rules", &rules, "--flows", &flows]);
    let mut reader = csv::Reader::from_path(&flows).unwrap();
    let header = reader.headers().unwrap().clone();
    let at = |name: &str| header.iter().position(|column| column == name).unwrap();
    let (verdict, rule, protocol) = (at("verdict"), at("rule"), at("protocol"));
    let (accepted, denied) = (at("packets_accepted"), at("packets_denied"));
    let mut words = std::collections::BTreeSet::new();
    for row in reader.records().map(Result::unwrap) {
        words.insert(row[verdict].to_owned());
        match &row[verdict] {
            "accept" => assert!(&row[denied] == "0" && &row[rule] != "0", "{row:?}"),
            "deny" => assert!(&row[accepted] == "0" && &row[rule] == "0", "{row:?}"),
            other => assert_eq!(other, "mixed"),
        }
        if &row[rule] == "1" {
            assert_eq!(&row[protocol], "6", "{row:?}");
        }
    }
    assert!(words.contains("accept") && words.contains("deny"), "{words:?}");
}

/// A run that continues until it is interrupted.
struct Running {
    command: Command,
    child: Option<Child>,
    stderr: std::path::PathBuf,
}

impl Drop for Running {
    /// A test that fails leaves no process behind.
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Running {
    fn start(folder: &Folder, arguments: &[&str]) -> Self {
        let stderr = std::path::PathBuf::from(folder.path("stderr"));
        let mut command = command(
            [&["replay", "--loop", "--speed", "20k", "--no-pin", "--format", "json"], arguments].concat(),
        );
        command.stdout(Stdio::piped()).stderr(std::fs::File::create(&stderr).unwrap());
        let child = Some(command.spawn().unwrap());
        Self { command, child, stderr }
    }

    fn send(&self, signal: &str) {
        send(signal, self.child.as_ref().unwrap());
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap()
    }

    /// Waits until stderr has this many lines with these words.
    #[track_caller]
    fn says(&self, words: &str, times: usize) -> String {
        let begun = Instant::now();
        loop {
            let said = self.said();
            if said.matches(words).count() >= times {
                return said;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "no {times} × {words:?} in {said}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn stop(self) -> Outcome {
        self.send("-INT");
        self.end()
    }

    /// Waits for the end of an interrupted run.
    fn end(mut self) -> Outcome {
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        Outcome::new(&self.command, output).ends(130)
    }
}

/// Waits until a counter exceeds a number, even on a slow machine. Returns the page.
#[track_caller]
fn page_with(address: &str, name: &str, above: u64) -> String {
    let begun = Instant::now();
    loop {
        let page = get(address, "/metrics");
        if metric(&page, name) > above {
            return page;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{name} stays at {above} or below: {page}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Reads a page from the address that a run has printed.
fn get(said: &str, path: &str) -> String {
    use std::io::{Read, Write};
    let address = said.split("http://").nth(1).unwrap().split('/').next().unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn metric(page: &str, name: &str) -> u64 {
    let line = page.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    line.unwrap_or_else(|| panic!("no {name} in {page}")).rsplit_once(' ').unwrap().1.parse().unwrap()
}

#[test]
fn rules_are_loaded_again_while_packets_flow() {
    for layout in [&[][..], &["--workers", "2"]] {
        let folder = Folder::new();
        let trace = folder.trace("t.pcap", &[]);
        let rules = folder.write("rules.toml", ALL.as_bytes());
        let base = [trace.as_str(), "--rules", &rules, "--listen", "127.0.0.1:0"];
        let running = Running::start(&folder, &[&base[..], layout].concat());
        let address = running.says("statistics at http://127.0.0.1:", 1);
        let packets = || metric(&get(&address, "/metrics"), "flowloom_packets_total");
        let more = |than: u64| {
            let begun = Instant::now();
            while packets() <= than {
                assert!(begun.elapsed() < Duration::from_secs(20), "packets stand still");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        // The packets of the reader are counted before a worker decides them.
        page_with(&address, "flowloom_verdict_flows_total{verdict=\"accept\"}", 0);
        folder.write("rules.toml", NONE.as_bytes());
        running.send("-HUP");
        running.says("rules reloaded", 1);
        page_with(&address, "flowloom_rule_packets_total{rule=\"1\"}", 1000);
        folder.write("rules.toml", b"[[rule]]\nsource = 'unknown'\n");
        running.send("-HUP");
        // The end of the message, because its beginning may be read before the end is there.
        let said = running.says("rules.toml:2:10", 1);
        assert!(said.contains("warning: the rules stay unchanged"), "{said}");
        more(packets() + 1000);
        let page = page_with(&address, "flowloom_denied_total", 1000);
        assert!(metric(&page, "flowloom_verdict_packets_total{verdict=\"deny\"}") > 1000, "{page}");
        assert!(metric(&page, "flowloom_verdict_flows_total{verdict=\"accept\"}") > 0, "{page}");
        assert_eq!(metric(&page, "flowloom_rules_generation"), 2);
        assert!(metric(&page, "flowloom_rule_packets_total{rule=\"1\"}") > 1000, "{page}");
        assert_eq!(metric(&page, "flowloom_rule_reloads_total{outcome=\"taken\"}"), 1);
        assert_eq!(metric(&page, "flowloom_rule_reloads_total{outcome=\"failed\"}"), 1);
        let document = running.stop().json();
        check_balance(&document);
        assert_eq!(
            (hits(&document, "accepted", "packets") > 0, number(&document, "denied") > 1000),
            (true, true)
        );
        let firewall = &document["firewall"];
        assert_eq!((number(firewall, "reloads"), number(firewall, "reloads_failed")), (1, 1), "{layout:?}");
        assert_eq!(firewall["top"][0]["verdict"], "deny", "the rules of the end are listed");
        assert_eq!(number(&firewall["top"][0], "packets"), number(&document, "denied"), "{layout:?}");
    }
}

#[test]
fn watched_file_is_reloaded_unless_it_is_invalid_or_too_large() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let rules = folder.write("rules.toml", NONE.as_bytes());
    let large = folder.path("large.toml");
    let bench = folder.path("bench");
    flowloom(["generate", "rules", "-q", "--rules", "2000", "-o", &bench]).ends(0);
    flowloom(["rules", "convert", &bench, "-q", "--to", "toml", "-o", &large]).ends(0);
    let running = Running::start(
        &folder,
        &[&trace, "--rules", &rules, "--watch-rules", "--rules-memory", "20k", "--listen", "127.0.0.1:0"],
    );
    let address = running.says("statistics at http://127.0.0.1:", 1);
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(running.said().lines().count(), 1, "nothing has changed");
    std::fs::copy(&large, &rules).unwrap();
    let said = running.says("the limit is 20480", 1);
    assert!(said.contains("the rules stay unchanged") && said.contains("the classifier needs"), "{said}");
    std::fs::remove_file(&rules).unwrap();
    running.says("the rules stay unchanged", 2);
    folder.write("rules.toml", ALL.as_bytes());
    running.says("rules reloaded", 1);
    page_with(&address, "flowloom_verdict_packets_total{verdict=\"deny\"}", 0);
    page_with(&address, "flowloom_verdict_packets_total{verdict=\"accept\"}", 0);
    let document = running.stop().json();
    let firewall = &document["firewall"];
    assert_eq!((number(firewall, "reloads"), number(firewall, "reloads_failed")), (1, 2));
    assert!(number(&document, "denied") > 0 && hits(&document, "accepted", "packets") > 0);
}

#[test]
fn statistics_line_is_printed_on_request() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let running = Running::start(&folder, &[&trace, "--workers", "2", "--listen", "127.0.0.1:0"]);
    let address = running.says("statistics at http://127.0.0.1:", 1);
    page_with(&address, "flowloom_processed_total", 0);
    running.send("-USR1");
    let said = running.says("packets/s)   processed ", 1);
    let figure: u64 = said
        .split("packets ")
        .nth(1)
        .unwrap()
        .split(" (")
        .next()
        .unwrap()
        .replace(' ', "")
        .parse()
        .unwrap();
    assert!(figure > 0, "{said}");
    assert!(!said.contains("processed 0 "), "{said}");
    running.send("-USR1");
    assert_eq!(running.says("packets/s)   processed ", 2).lines().count(), 3, "and the address");
    check_balance(&running.stop().json());
}

#[test]
fn sighup_ends_a_run_without_rules() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let mut running = Running::start(&folder, &[&trace, "--listen", "127.0.0.1:0"]);
    let address = running.says("statistics at http://127.0.0.1:", 1);
    page_with(&address, "flowloom_processed_total", 0);
    running.send("-HUP");
    // Tests that are run with `nohup` pass on to the command that it should ignore SIGHUP.
    if hang_ups_are_ignored() {
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(running.child.as_mut().unwrap().try_wait().unwrap(), None);
        running.send("-INT");
    }
    assert_eq!(running.end().json()["interrupted"], true);
}

/// Returns whether this process, and therefore its children, ignores SIGHUP.
fn hang_ups_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.is_some_and(|bits| u64::from_str_radix(bits.trim(), 16).unwrap() & 1 == 1)
}

#[test]
fn statistics_are_served_while_a_run_lasts_and_a_slow_reader_does_not_hold_it_up() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let running = Running::start(&folder, &[&trace, "--workers", "2", "--listen", "127.0.0.1:0"]);
    let address = running.says("statistics at http://127.0.0.1:", 1);
    let page = page_with(&address, "flowloom_processed_total", 0);
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    let first = metric(&page, "flowloom_packets_total");
    let dropped: u64 = page
        .lines()
        .filter_map(|line| {
            line.strip_prefix("flowloom_dropped_total{")
                .or_else(|| line.strip_prefix("flowloom_not_tracked_total{"))?
                .rsplit_once(' ')?
                .1
                .parse::<u64>()
                .ok()
        })
        .sum();
    let processed = metric(&page, "flowloom_processed_total");
    assert!(processed > 0);
    assert_eq!(first, processed + dropped + metric(&page, "flowloom_in_flight"), "{page}");
    let each =
        |worker: u8| metric(&page, &format!("flowloom_worker_processed_total{{worker=\"{worker}\"}}"));
    assert_eq!(each(0) + each(1), processed);
    assert_eq!(metric(&page, "flowloom_not_tracked_total{reason=\"table_full\"}"), 0);
    assert!(!page.contains("rule_reloads"), "there are no rules");
    assert!(get(&address, "/").starts_with("HTTP/1.1 404 "));
    let port = address.split("127.0.0.1:").nth(1).unwrap().split('/').next().unwrap().to_owned();
    let _mute = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let begun = Instant::now();
    page_with(&address, "flowloom_packets_total", first);
    assert!(begun.elapsed() < Duration::from_secs(15), "a silent connection holds up others");
    let begun = Instant::now();
    check_balance(&running.stop().json());
    assert!(begun.elapsed() < Duration::from_secs(15), "an open connection keeps the run");
}
