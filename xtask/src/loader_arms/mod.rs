//! `cargo xtask loader-arms`: deletes each arm of the loaders of rules, and looks for packets that
//! are then decided differently.
//!
//! A loader that does not know a word must refuse the file, or make the rule unknown. So without
//! the arm of a word, a file with this word is refused, or packets are undecided that were decided;
//! none gets another verdict. A copy of the workspace has all deletions at once, chosen at run
//! time, and a program that tries them on random files, and on files of a folder.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::kernel;

/// Deletes each arm of the loaders of rules that matches a word. Files with that word must then be
/// refused, or leave packets undecided; a packet with another verdict is a failure. The files are
/// random ones, the texts of the crate's tests, and those of a folder.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Number of random files.
    #[arg(long, default_value_t = 400)]
    files: u64,
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A folder with more files, in any format.
    #[arg(long)]
    corpus: Option<PathBuf>,
}

/// The loaders.
const LOADERS: [&str; 6] = ["iptables", "nft", "cisco", "ipset.rs", "toml", "aws.rs"];

/// The module by which arms ask whether they are deleted, and which arms were reached.
const CHOICE: &str = "
#[doc(hidden)]
pub mod mutant {
    use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
    pub static CHOSEN: AtomicU32 = AtomicU32::new(0);
    pub static REACHED: [AtomicBool; 8192] = [const { AtomicBool::new(false) }; 8192];
    pub fn is(number: u32) -> bool {
        REACHED[number as usize % REACHED.len()].store(true, Relaxed);
        CHOSEN.load(Relaxed) == number
    }
}
";

/// The program that tries the deletions.
const HARNESS: &str = include_str!("harness.txt");

/// An arm: where its guard is inserted or begins, and its pattern.
struct Arm {
    at: usize,
    end: usize,
    line: usize,
    pattern: String,
}

struct Finder<'a> {
    source: &'a str,
    arms: Vec<Arm>,
}

/// Returns whether a pattern has a word, not only signs.
fn has_text(pattern: &syn::Pat) -> bool {
    struct Texts(bool);
    impl<'ast> Visit<'ast> for Texts {
        fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
            self.0 |= text.value().contains(char::is_alphanumeric);
        }
    }
    let mut texts = Texts(false);
    texts.visit_pat(pattern);
    texts.0
}

fn has_let(expr: &syn::Expr) -> bool {
    match expr {
        syn::Expr::Let(_) => true,
        syn::Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_expr_match(&mut self, found: &'ast syn::ExprMatch) {
        // Without an arm for all other words the match would not compile.
        let rest = found.arms.last().is_some_and(|arm| {
            matches!(arm.pat, syn::Pat::Wild(_) | syn::Pat::Ident(_)) && arm.guard.is_none()
        });
        for arm in found.arms.iter().filter(|arm| rest && has_text(&arm.pat)) {
            let range = arm.pat.span().byte_range();
            let (at, end) = match &arm.guard {
                Some((_, guard)) if has_let(guard) => continue,
                Some((_, guard)) => (guard.span().byte_range().start, guard.span().byte_range().end),
                None => (range.end, range.end),
            };
            let pattern = self.source[range].split_whitespace().collect::<Vec<_>>().join(" ");
            self.arms.push(Arm { at, end, line: arm.pat.span().start().line, pattern });
        }
        visit::visit_expr_match(self, found);
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if item.sig.constness.is_none() {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }
}

/// Returns a file whose arms can be deleted; adds a line about each to `names`.
fn with_choices(path: &Path, source: &str, names: &mut String, next: &mut u32) -> Result<String> {
    let mut finder = Finder { source, arms: Vec::new() };
    finder.visit_file(&syn::parse_file(source)?);
    // An arm inside another one's guard would be inserted twice.
    finder.arms.sort_by_key(|arm| (arm.at, arm.end));
    let (mut out, mut at) = (String::with_capacity(source.len() * 2), 0);
    for arm in finder.arms {
        if arm.at < at {
            continue;
        }
        out.push_str(&source[at..arm.at]);
        let guard = &source[arm.at..arm.end];
        if guard.is_empty() {
            let _ = write!(out, " if !crate::mutant::is({next})");
        } else {
            let _ = write!(out, "({guard}) && !crate::mutant::is({next})");
        }
        let _ = writeln!(names, "{next}\t{}:{}\t{}", path.display(), arm.line, arm.pattern);
        at = arm.end;
        *next += 1;
    }
    out.push_str(&source[at..]);
    Ok(out)
}

/// Returns the texts of several lines in the sources of the loaders and its tests.
fn texts_of_tests(root: &Path) -> Result<Vec<String>> {
    struct Texts(Vec<String>);
    impl<'ast> Visit<'ast> for Texts {
        fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
            self.0.extend(Some(text.value()).filter(|text| text.lines().count() > 1));
        }

        fn visit_macro(&mut self, found: &'ast syn::Macro) {
            for token in found.tokens.clone() {
                if let proc_macro2::TokenTree::Literal(literal) = token
                    && let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string())
                {
                    self.visit_lit_str(&text);
                }
            }
        }
    }
    let mut texts = Texts(Vec::new());
    for path in rust_files(root, Path::new("crates/rules"), &["src/load", "tests"])? {
        texts.visit_file(&syn::parse_file(&std::fs::read_to_string(root.join(path))?)?);
    }
    Ok(texts.0)
}

/// Deletes the arms.
pub(crate) fn run(root: &Path, options: Options) -> Result<ExitCode> {
    let corpus = options.corpus.map(std::path::absolute).transpose()?;
    let folder = root.join("target").join("loader-arms");
    let tree = copy(root, &folder)?;
    let base = Path::new("crates").join("rules").join("src");
    let (mut names, mut next) = (String::new(), 1);
    for path in rust_files(root, &base.join("load"), &LOADERS)? {
        let source = std::fs::read_to_string(root.join(&path))?;
        put(&tree.join(&path), with_choices(&path, &source, &mut names, &mut next)?.as_bytes())?;
    }
    let lib = std::fs::read_to_string(root.join(&base).join("lib.rs"))?;
    put(&tree.join(&base).join("lib.rs"), (lib + CHOICE).as_bytes())?;
    put(&tree.join("crates/rules/examples/loader_arms.rs"), HARNESS.as_bytes())?;
    put(&folder.join("arms.tsv"), names.as_bytes())?;
    let drawn = folder.join("files");
    let _ = std::fs::remove_dir_all(&drawn);
    for file in 0..options.files {
        put(&drawn.join(format!("{file:05}.rules")), kernel::random_file(options.seed, file).as_bytes())?;
    }
    for (number, text) in (0..).zip(texts_of_tests(root)?) {
        put(&drawn.join(format!("test-{number:05}.rules")), text.as_bytes())?;
    }
    let mut command = Command::new("cargo");
    command.args(["run", "--quiet", "-p", "flowloom-rules", "--example", "loader_arms", "--"]);
    command.arg(folder.join("arms.tsv")).arg(&drawn).args(corpus).current_dir(&tree);
    let status = command.status().context("cargo does not run")?;
    ensure!(matches!(status.code(), Some(0 | 1)), "the program failed: {status}");
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the Rust files of folders and files below `base`.
fn rust_files(root: &Path, base: &Path, names: &[&str]) -> Result<Vec<PathBuf>> {
    let mut files = BTreeSet::new();
    for name in names {
        let output = Command::new("git").arg("ls-files").arg(base.join(name)).current_dir(root).output()?;
        let text = String::from_utf8(output.stdout)?;
        ensure!(!text.is_empty(), "{} has no files", base.join(name).display());
        let files_of = text.lines().map(PathBuf::from);
        files.extend(files_of.filter(|path| path.extension().is_some_and(|ending| ending == "rs")));
    }
    Ok(files.into_iter().collect())
}

/// Copies the files of the workspace; a file that did not change keeps its time, so that it is not
/// built again.
fn copy(root: &Path, folder: &Path) -> Result<PathBuf> {
    let tree = folder.join("tree");
    let output =
        Command::new("git").args(["ls-files", "-co", "--exclude-standard"]).current_dir(root).output()?;
    for name in String::from_utf8(output.stdout)?.lines() {
        put(&tree.join(name), &std::fs::read(root.join(name)).unwrap_or_default())?;
    }
    Ok(tree)
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    if std::fs::read(path).is_ok_and(|known| known == bytes) {
        return Ok(());
    }
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
    std::fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arm_of_a_word_gets_a_guard() {
        let source = "fn f(w: &str) -> u8 {\n    match w {\n        \"a\" | \"b\" => 1,\n        \
                      \"c\" if w.len() > 1 || w.is_empty() => 2,\n        _ => 0,\n    }\n}\n\
                      fn g(w: &str) { match w { \"x\" => {} y => drop(y) } }\n\
                      fn h(w: u8) { match w { 1 => {} _ => {} } }\n";
        let (mut names, mut next) = (String::new(), 1);
        let out = with_choices(Path::new("f.rs"), source, &mut names, &mut next).unwrap();
        assert!(out.contains("\"a\" | \"b\" if !crate::mutant::is(1) => 1"), "{out}");
        assert!(out.contains("if (w.len() > 1 || w.is_empty()) && !crate::mutant::is(2) => 2"), "{out}");
        assert!(out.contains("\"x\" if !crate::mutant::is(3) => {}"), "{out}");
        assert_eq!((next, names.lines().next()), (4, Some("1\tf.rs:3\t\"a\" | \"b\"")));
        syn::parse_file(&out).unwrap();
    }
}
