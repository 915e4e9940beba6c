//! Rust source text, split into code and the rest, as far as the checks need it.

use std::path::{Path, PathBuf};

/// A file of the tree.
#[derive(Clone, Debug)]
pub(crate) struct SourceFile {
    /// Path relative to the root, with slashes.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
    /// The same text with comments, strings and characters blanked; line and column numbers are
    /// unchanged.
    pub(crate) code: String,
    /// Whether each line (starting at 0) belongs to test code.
    test_lines: Vec<bool>,
}

impl SourceFile {
    /// Splits a text. Files that are not Rust consist of text only.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let code = if is_rust(path) { blank(text) } else { String::new() };
        let test_lines = test_lines(path, &code);
        Self { path: path.to_owned(), text: text.to_owned(), code, test_lines }
    }

    /// Returns whether the file is Rust.
    pub(crate) fn is_rust(&self) -> bool {
        is_rust(&self.path)
    }

    /// Returns the directory of the file's crate, such as `crates/packet`, if it belongs to one.
    pub(crate) fn crate_folder(&self) -> Option<&str> {
        let rest = self.path.strip_prefix("crates/")?;
        let end = rest.find('/')?;
        Some(&self.path[.."crates/".len() + end])
    }

    /// Returns whether the file is part of a published library: `src` of a crate.
    pub(crate) fn is_library(&self) -> bool {
        self.crate_folder().is_some_and(|folder| self.path[folder.len()..].starts_with("/src/"))
    }

    /// Returns the numbered lines of code (starting at 1), with comments and strings blanked.
    pub(crate) fn code_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.code.lines())
    }

    /// Like [`code_lines`](Self::code_lines), without test code.
    pub(crate) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code_lines().filter(|(number, _)| !self.test_lines.get(number - 1).copied().unwrap_or(false))
    }
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

/// Returns whether `word` occurs in `line` as a whole word.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(part) && !line[at + word.len()..].starts_with(part))
}

/// Replaces everything but code with spaces, and keeps line breaks.
fn blank(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after_name = out.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let length = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => string(rest),
            'r' | 'b' | 'c' if !after_name => prefixed_string(rest).unwrap_or(0),
            '\'' => character(rest).unwrap_or(0),
            _ => 0,
        };
        if length == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            out.extend(rest[..length].chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
            rest = &rest[length..];
        }
    }
    out
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

/// Returns the length of the string at the start of `text`, which begins with its quote.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of a raw, byte or C string (or byte character) at the start of `text`, if
/// there is one.
fn prefixed_string(text: &str) -> Option<usize> {
    let letters = text.len() - text.trim_start_matches(['b', 'c', 'r']).len();
    let prefix = &text[..letters];
    let rest = &text[letters..];
    if !matches!(prefix, "r" | "b" | "c" | "br" | "cr") {
        return None;
    }
    if prefix == "b" && rest.starts_with('\'') {
        return character(rest).map(|length| letters + length);
    }
    if !prefix.contains('r') {
        return rest.starts_with('"').then(|| letters + string(rest));
    }
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    if !rest[hashes..].starts_with('"') {
        return None;
    }
    let end = format!("\"{}", &rest[..hashes]);
    let body = letters + hashes + 1;
    Some(text[body..].find(&end).map_or(text.len(), |at| body + at + end.len()))
}

/// Returns the length of a character literal at the start of `text`; a lifetime is not one.
fn character(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        chars.next()?;
        return text[3..].find('\'').map(|at| 3 + at + 1);
    }
    let (at, second) = chars.next()?;
    (second == '\'').then_some(at + 1)
}

/// Marks the lines of test code: whole files in `tests`, `benches` and `examples`, and items under
/// `cfg(test)` elsewhere.
fn test_lines(path: &str, code: &str) -> Vec<bool> {
    let count = code.lines().count();
    if path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples"))
        || path.starts_with("fuzz/")
    {
        return vec![true; count];
    }
    let mut marked = vec![false; count];
    for (start, _) in code.match_indices("#[cfg(test)]") {
        let end = item_end(code, start);
        let first = code[..start].matches('\n').count();
        let last = code[..end].matches('\n').count();
        marked[first..=last.min(count - 1)].fill(true);
    }
    marked
}

/// Returns the end of the item that begins at `start`: its matching brace, or the first semicolon
/// or closing brace before any.
fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0;
    for (at, c) in code[start..].char_indices() {
        match c {
            '{' => depth += 1,
            // A field or a variant ends where the enclosing item ends.
            '}' if depth <= 1 => return start + at,
            '}' => depth -= 1,
            ';' if depth == 0 => return start + at,
            _ => {}
        }
    }
    code.len()
}

/// Returns the paths of all files of the tree, sorted, from the root and with slashes.
///
/// Asks git if it is available; otherwise walks the directories and skips build output.
pub(crate) fn files(root: &Path) -> std::io::Result<Vec<String>> {
    let git = std::process::Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .stderr(std::process::Stdio::null())
        .output();
    let mut found = match git {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            String::from_utf8_lossy(&output.stdout)
                .split('\0')
                .filter(|path| !path.is_empty() && root.join(path).is_file())
                .map(str::to_owned)
                .collect()
        }
        _ => walk(root)?,
    };
    found.sort();
    found.dedup();
    Ok(found)
}

fn walk(root: &Path) -> std::io::Result<Vec<String>> {
    const LEFT_BY_BUILDS: [&str; 6] =
        ["target", ".git", "fuzz/target", "fuzz/corpus", "fuzz/artifacts", "fuzz/coverage"];
    let (mut found, mut folders) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let name = path.to_string_lossy().replace('\\', "/");
            let kind = entry.file_type()?;
            // The licences of a crate are links to those of the project.
            if kind.is_file() || (kind.is_symlink() && root.join(&path).is_file()) {
                found.push(name);
            } else if kind.is_dir() && !LEFT_BY_BUILDS.contains(&name.as_str()) {
                folders.push(path);
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_no_code() {
        let text = "let a = \"unsafe \\\" {\"; // unsafe\n/* unsafe /* unsafe */ unsafe */ b('\\'', 'x', b'\"');\n";
        let file = SourceFile::new("crates/x/src/a.rs", text);
        assert!(!has_word(&file.code, "unsafe"), "{:?}", file.code);
        assert!(file.code.contains("let a ="));
        assert!(file.code.contains(" b(    ,    ,     );"), "{:?}", file.code);
        assert_eq!(file.code.lines().count(), text.lines().count());
    }

    #[test]
    fn raw_strings_end_at_their_own_mark() {
        let file = SourceFile::new("a.rs", "x(r#\"unsafe \" unsafe\"#, br\"unsafe\", r#unsafe_name); y");
        assert!(!has_word(&file.code, "unsafe"), "{:?}", file.code);
        assert!(file.code.ends_with("; y"));
    }

    #[test]
    fn lifetimes_are_code() {
        let code = SourceFile::new("a.rs", "fn f<'a>(x: &'a str) -> &'static str { unsafe {} }").code;
        assert!(has_word(&code, "unsafe"));
    }

    #[test]
    fn test_modules_are_not_the_product() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() { {} }\n}\nfn c() {}\n#[cfg(test)]\nuse x;\nfn d() {}\n";
        let file = SourceFile::new("crates/x/src/a.rs", text);
        let numbers: Vec<usize> = file.product_lines().map(|(number, _)| number).collect();
        assert_eq!(numbers, [1, 6, 9]);
        assert_eq!(SourceFile::new("crates/x/tests/a.rs", text).product_lines().count(), 0);
    }

    #[test]
    fn a_field_for_tests_ends_before_the_product_goes_on() {
        let text = "struct A {\n    #[cfg(test)]\n    b: u8,\n}\nfn c() {}\nfn d() {}\n";
        let file = SourceFile::new("crates/x/src/a.rs", text);
        let numbers: Vec<usize> = file.product_lines().map(|(number, _)| number).collect();
        assert_eq!(numbers, [1, 5, 6]);
    }

    #[cfg(unix)]
    #[test]
    fn a_plain_copy_has_the_files_that_links_lead_to() {
        let root = std::env::temp_dir().join(format!("flowloom-xtask-{}-walk", std::process::id()));
        std::fs::create_dir_all(root.join("a/target")).unwrap();
        std::fs::create_dir_all(root.join("target")).unwrap();
        for file in ["b", "target/c", "a/target/d"] {
            std::fs::write(root.join(file), "").unwrap();
        }
        for (to, link) in [("../b", "a/b"), ("../nowhere", "a/c"), ("..", "a/up")] {
            std::os::unix::fs::symlink(to, root.join(link)).unwrap();
        }
        let mut found = walk(&root).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        found.sort();
        assert_eq!(found, ["a/b", "a/target/d", "b"]);
    }

    #[test]
    fn a_word_stands_by_itself() {
        assert!(has_word("x(unsafe {", "unsafe"));
        assert!(!has_word("unsafe_code not_unsafe unsafely", "unsafe"));
    }
}
