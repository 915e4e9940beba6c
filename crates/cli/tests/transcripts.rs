//! Transcripts: commands and all that they print, in files of which a diff shows what changed.
//!
//! A file of `transcripts/` has titles (`## …`), commands (`$ …`, continued by `> …`), and for each
//! command its standard output, its standard error behind `! `, and its exit status. `sh` runs the
//! commands of a file in one folder, which has the captures of [`fixtures`](crate::fixtures) that
//! the file names. Behind a command, `# /a /b/*/c` selects values of the JSON on standard output.
//! With `UPDATE_EXPECT=1` the files are written anew.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use expect_test::expect_file;
use regex::Regex;
use serde_json::Value;

use crate::fixtures;
use crate::schema::assert_conforms;
use crate::support::{Folder, check_balance, flowloom};

/// Patterns of output that differ between runs and machines, with their placeholders.
static MASKS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    [
        (r"(?m)flowloom \d+\.\d+\.\d+( \([^)]*\))?", "flowloom VERSION"),
        (r"VERSION   \S+ (scalar|sse4\.2|avx2|avx512|neon)", "VERSION   MACHINE"),
        (r"VERSION   .*   scale", "VERSION   MACHINE   scale"),
        (r"(inline|input), (CPU \d+|unpinned)", "${1}, CPU …"),
        (r"allowed: [\d,-]+\)", "allowed: …)"),
        (r"scalar, sse4\.2.*", "scalar, …"),
        (r"\d[\d.]* ?[kMG]?packets/s", "… packets/s"),
        (r"\d[\d.]* ?[kMG]?B/s captured", "… B/s captured"),
        (r"\d+\.\d+ ns per lookup on \w+", "… ns per lookup"),
        (r"(?m)in \d+\.\d+ s$", "in … s"),
        (r"(?m)(: [a-z ]+, |\]   )\d+\.\d+ s$", "${1}… s"),
        (r"(?m)^Chunks .*", "Chunks      …"),
        (r"displaced \d+ \(longest list \d+\)", "displaced …"),
        (r"ring full \d+ times", "ring full … times"),
        (r"the process \d+\.\d+ MiB", "the process … MiB"),
        (r"at least \d+\.\d+ MiB are", "at least … MiB are"),
        (r"but \d+ are free", "but … are free"),
    ]
    .map(|(pattern, mask)| (Regex::new(pattern).unwrap(), mask))
    .into()
});

fn masked(text: &str) -> String {
    MASKS
        .iter()
        .fold(text.to_owned(), |text, (pattern, mask)| pattern.replace_all(&text, *mask).into_owned())
}

/// Returns the values at a JSON pointer, in which `*` stands for each element.
fn values<'a>(value: &'a Value, pointer: &str) -> Vec<&'a Value> {
    let Some((head, rest)) = pointer.split_once("/*") else {
        return value.pointer(pointer).into_iter().collect();
    };
    let inner = value.pointer(head).map_or(Vec::new(), |inner| match inner {
        Value::Object(fields) => fields.values().collect(),
        other => other.as_array().into_iter().flatten().collect(),
    });
    inner.into_iter().flat_map(|element| values(element, rest)).collect()
}

/// Returns the part of standard output that the transcript shows. Documents conform to their
/// schemas, and every packet of a replay has its place.
fn shown(stdout: &str, selected: &[&str], stderr: &str) -> String {
    let documents = serde_json::Deserializer::from_str(stdout).into_iter::<Value>();
    let documents: Vec<Value> = documents.map_while(Result::ok).filter(Value::is_object).collect();
    for document in documents.iter().filter(|document| document["schema"].is_string()) {
        assert_conforms(document);
        if document["schema"] == "flowloom/replay/1" {
            check_balance(document);
        }
    }
    if selected.is_empty() {
        return stdout.to_owned();
    }
    assert!(!documents.is_empty(), "no JSON: {stdout}{stderr}");
    let mut text = String::new();
    for (document, pointer) in documents.iter().flat_map(|one| selected.iter().map(move |at| (one, at))) {
        let values: Vec<String> = values(document, pointer).iter().map(ToString::to_string).collect();
        writeln!(text, "{pointer} {}", values.join(" ")).unwrap();
    }
    text
}

/// Runs a command of a transcript and returns what it prints, as the transcript shows it.
fn ran(command: &str, folder: &Folder) -> String {
    let folder_of_program = Path::new(env!("CARGO_BIN_EXE_flowloom")).parent().unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("PATH=$FOLDER:$PATH\n{command}")]).current_dir(folder.path(""));
    shell.env("FOLDER", folder_of_program).env("LC_ALL", "C").stdin(Stdio::null());
    for variable in ["NO_COLOR", "COLUMNS", "FLOWLOOM_DATA"] {
        shell.env_remove(variable);
    }
    let output = shell.output().unwrap();
    let comments = command.lines().filter_map(|line| line.rsplit_once(" # "));
    let selected: Vec<&str> =
        comments.flat_map(|(_, comment)| comment.split(' ')).filter(|word| word.starts_with('/')).collect();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let [stdout, stderr] = [masked(&shown(&stdout, &selected, &stderr)), masked(&stderr)];
    let mut text = String::new();
    for line in stdout.lines().map(str::to_owned).chain(stderr.lines().map(|line| format!("! {line}"))) {
        let is_plain = !line.chars().any(|c| c.is_control() && c != '\t');
        assert!(is_plain, "{command}\nsteers a terminal: {line:?}");
        let is_output = !["$ ", ">", "## ", "[exit "].iter().any(|mark| line.starts_with(mark));
        assert!(is_output, "{command}\nprints what would not be read again: {line}");
        writeln!(text, "{line}").unwrap();
    }
    let status = output.status.code().map_or_else(|| String::from("signal"), |code| code.to_string());
    text + &format!("[exit {status}]\n")
}

/// Runs the commands of a transcript, and compares all that they print.
fn run(name: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/transcripts/{name}.txt"));
    let text = std::fs::read_to_string(&path).unwrap();
    let folder = Folder::new();
    for (name, bytes) in fixtures::ALL.iter().filter(|(name, _)| text.contains(name)) {
        folder.write(name, &bytes());
    }
    let mut seen = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("## ") {
            write!(seen, "\n{line}\n").unwrap();
        } else if let Some(first) = line.strip_prefix("$ ") {
            let mut command = first.to_owned();
            writeln!(seen, "{line}").unwrap();
            while let Some(more) = lines.next_if(|line| line.starts_with('>')) {
                writeln!(seen, "{more}").unwrap();
                command.extend(["\n", more.strip_prefix("> ").unwrap_or_default()]);
            }
            while lines.next_if(|line| !["$ ", "## "].iter().any(|mark| line.starts_with(mark))).is_some() {
            }
            seen += &ran(&command, &folder);
        } else if !line.is_empty() {
            writeln!(seen, "{line}").unwrap();
        }
    }
    expect_file![path].assert_eq(&seen);
}

/// Collects the help of a command, if it is one, and of its commands.
fn collect_help(words: &[&str], found: &mut Vec<(String, String)>) {
    let command = ["flowloom", &words.join(" ")].join(" ").trim().to_owned();
    let [short, long] = ["-h", "--help"].map(|option| flowloom([words, &[option]].concat()));
    if !short.text().contains(&format!("Usage: {command}")) {
        return;
    }
    for line in short.text().lines() {
        let verb = line.strip_prefix("  ").and_then(|line| line.split_once("  "));
        let verb = verb
            .map(|(verb, _)| verb)
            .filter(|verb| *verb != "help" && verb.starts_with(char::is_lowercase));
        verb.inspect(|verb| collect_help(&[words, &[verb]].concat(), found));
    }
    let [short, long] = [short, long].map(|outcome| outcome.ends(0).silent());
    let text = format!("$ {command} -h\n{}\n$ {command} --help\n{}", short.text(), long.text());
    found.push((command.replace(' ', "-"), text));
}

#[test]
fn help_of_every_command_equals_its_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help");
    let mut found = Vec::new();
    collect_help(&[], &mut found);
    for (name, text) in &found {
        expect_file![folder.join(format!("{name}.txt"))].assert_eq(text);
    }
    let files = std::fs::read_dir(&folder).unwrap().count();
    assert_eq!(files, found.len(), "a file is no command's");
}

/// A test for each transcript, so that one can be run alone.
macro_rules! transcripts {
    ($($name:ident)*) => {
        $(mod $name {
            #[test]
            fn command_prints_the_text_of_its_transcript() {
                super::run(stringify!($name));
            }
        })*

        #[test]
        fn every_transcript_is_run() {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
            let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            let mut names: Vec<_> = files.map(|path| path.file_stem().unwrap().to_owned()).collect();
            names.sort();
            assert_eq!(names, [$(stringify!($name)),*]);
        }
    };
}

transcripts! {
    arguments bench captures classify compare documents extract fields files firewall fragments generate inspect
    interfaces l7 limits losses one parts replay reproduce rule_files rules save simulate standard_output
    tcb_cache top tunnels
}
