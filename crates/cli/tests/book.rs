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

#[test]
fn every_command_of_the_book_ends_well() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src");
    let program = Path::new(env!("CARGO_BIN_EXE_flowloom")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    for page in ["start.md", "cookbook.md"] {
        let folder = Folder::new();
        let text = fs::read_to_string(book.join(page)).unwrap();
        let commands = commands(&text);
        assert!(commands.len() > 8, "{page}: {commands:?}");
        for command in commands {
            let output = Command::new("sh")
                .args(["-ec", &command])
                .current_dir(folder.path("."))
                .env("PATH", &path)
                .output()
                .unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{page}: $ {command}\n{}\n{stderr}", output.status);
        }
    }
}

#[test]
fn every_page_of_the_book_is_listed_and_every_listed_page_is_there() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src");
    let summary = fs::read_to_string(book.join("SUMMARY.md")).unwrap();
    let listed: Vec<&str> = summary.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    for entry in fs::read_dir(&book).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name == "SUMMARY.md" || listed.contains(&name.as_str()), "{name} is not in SUMMARY.md");
    }
    for name in listed {
        let page = fs::read_to_string(book.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        for included in page.split("{{#include ").skip(1).filter_map(|rest| rest.split("}}").next()) {
            assert!(book.join(included).is_file(), "{name} includes {included}");
        }
    }
}
