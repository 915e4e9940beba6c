//! Generates rule sets and headers.

use std::path::Path;

use flowloom::classifier::headers::{self, Traffic};
use flowloom::classifier::synth::{self, Profile};
use flowloom::classifier::{Key, KeyV4};
use flowloom::rules::load::classbench;

use crate::args::Common;
use crate::args::generate::{Headers, ProfileName, RuleProfile, TrafficName};
use crate::exit::{Failure, Status, stdout_failure};
use crate::output::{is_one_file, write_whole};
use crate::render::generate::MadeResult;
use crate::render::{of_many, print, warn};
use crate::rule_file;

/// Generates a rule set.
pub(crate) fn rules(arguments: &RuleProfile, common: &Common) -> Result<Status, Failure> {
    let (profile, name) = match arguments.profile {
        ProfileName::Acl => (Profile::Acl, "acl"),
        ProfileName::Fw => (Profile::Firewall, "fw"),
        ProfileName::Ipc => (Profile::PacketFilter, "ipc"),
    };
    let count = usize::try_from(arguments.rules).unwrap_or(usize::MAX);
    let set = synth::rules(profile, count, arguments.seed, arguments.v6)
        .map_err(|error| Failure::Usage(format!("--rules: {error}")))?;
    let text = classbench::write(set.rules());
    let what = format!("{name} {}", of_many(set.len() as u64, "rule"));
    finish(&arguments.output, &text, what, set.len() as u64, arguments.seed, common)
}

/// Generates headers.
pub(crate) fn headers(arguments: &Headers, common: &Common) -> Result<Status, Failure> {
    if is_one_file(&arguments.options.rules, &arguments.output) {
        return Err(Failure::Usage(format!(
            "-o {} would overwrite the rules\n  name another file",
            arguments.output.display()
        )));
    }
    let file = rule_file::read(&arguments.options)?;
    let apart = file.policy.set().rules().iter().filter(|rule| rule.spans::<KeyV4>().is_none()).count();
    let path = arguments.options.rules.display();
    if apart == file.policy.set().len() {
        return Err(Failure::Usage(format!(
            "{path} has only IPv6 rules, but header traces are IPv4\n  flowloom generate trace --v6 \
             100% makes an IPv6 capture"
        )));
    }
    if apart > 0 {
        let rules = file.policy.set().len();
        warn(
            &format!("{apart} of the {rules} rules of {path} are for IPv6: no header matches them"),
            common,
        );
    }
    let (traffic, name) = match arguments.traffic {
        TrafficName::Hits => (Traffic::HITS, "hits"),
        TrafficName::Misses => (Traffic::MISSES, "misses"),
        TrafficName::Zipf => (Traffic::ZIPF, "zipf"),
    };
    let count =
        usize::try_from(arguments.count).ok().filter(|&count| count <= HEADERS_MAX).ok_or_else(|| {
            Failure::Usage(format!("--count {}: at most {HEADERS_MAX} headers per file", arguments.count))
        })?;
    let keys: Vec<KeyV4> = headers::headers(file.policy.set(), traffic, count, arguments.seed);
    let mut text = String::new();
    for key in &keys {
        use std::fmt::Write;
        let [source, destination, from, to, protocol] = std::array::from_fn(|d| key.dimension(d));
        let written = writeln!(text, "{source}\t{destination}\t{from}\t{to}\t{protocol}");
        debug_assert!(written.is_ok(), "writing to a string does not fail");
    }
    finish(
        &arguments.output,
        &text,
        format!("{} ({name})", of_many(keys.len() as u64, "header")),
        keys.len() as u64,
        arguments.seed,
        common,
    )
}

/// Maximum number of headers in a file, which takes half a gigabyte of text.
const HEADERS_MAX: usize = 10_000_000;

fn finish(
    output: &Path,
    text: &str,
    what: String,
    lines: u64,
    seed: u64,
    common: &Common,
) -> Result<Status, Failure> {
    if output.as_os_str() == "-" {
        use std::io::Write;
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .map_err(|error| stdout_failure(&error))?;
        return Ok(Status::Ok);
    }
    write_whole(output, text.as_bytes())
        .map_err(|error| Failure::Output(format!("cannot write {}: {error}", output.display())))?;
    let result = MadeResult {
        schema: "flowloom/generate-lines/1",
        path: output.display().to_string(),
        what,
        seed,
        lines,
        bytes: text.len() as u64,
    };
    print(&result, common)?;
    Ok(Status::Ok)
}
