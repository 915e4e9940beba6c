//! Places of a source file where a mutant differs, and the file with all of its mutants.
//!
//! A mutant is an expression or a statement that is chosen at run time:
//! `(if crate::mutant::is(7) { (a) <= (b) } else { a < b })`. One build therefore contains all
//! mutants. Constants, patterns and `const fn` cannot choose at run time, and stay as they are.

use std::fmt::Write as _;
use std::ops::Range;

use anyhow::{Context, Result};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, Lit, Stmt};

/// A place with one mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// The bytes that the mutant replaces.
    pub(super) range: Range<usize>,
    /// Line of the first byte.
    pub(super) line: usize,
    /// The mutated text; for a statement, empty.
    pub(super) mutant: String,
    is_statement: bool,
}

impl Site {
    /// Returns the change as `a < b → (a) <= (b)`, on one line.
    pub(super) fn describe(&self, source: &str) -> String {
        let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let mutant = if self.is_statement { "removed" } else { &self.mutant };
        format!("{} → {}", line(&source[self.range.clone()]), line(mutant))
    }
}

/// Returns all sites of a file, in the order of the text; an outer one precedes those inside it.
pub(super) fn sites(source: &str) -> Result<Vec<Site>> {
    let file = syn::parse_file(source).context("cannot parse Rust")?;
    let mut finder = Finder { source, sites: Vec::new() };
    finder.visit_file(&file);
    let mut sites = finder.sites;
    sites.sort_by_key(|site| (site.range.start, std::cmp::Reverse(site.range.end)));
    sites.dedup_by(|a, b| a.range == b.range);
    Ok(sites)
}

/// Returns the file with the chosen mutants, each under its number.
pub(super) fn with_mutants(source: &str, chosen: &[(u32, &Site)]) -> String {
    let mut out = String::with_capacity(source.len() * 2);
    render(source, 0..source.len(), chosen, &mut out);
    out
}

fn render(source: &str, range: Range<usize>, mut chosen: &[(u32, &Site)], out: &mut String) {
    let mut at = range.start;
    while let Some(((number, site), rest)) = chosen.split_first() {
        let inner = rest.iter().take_while(|(_, other)| other.range.start < site.range.end).count();
        out.push_str(&source[at..site.range.start]);
        // The line break lets an error of the compiler name the mutant.
        let open = if site.is_statement { "" } else { "(" };
        let _ = write!(out, "\n{open}if crate::mutant::is({number}) {{ {} }} else {{ ", site.mutant);
        render(source, site.range.clone(), &rest[..inner], out);
        out.push_str(if site.is_statement { " }" } else { " })" });
        at = site.range.end;
        chosen = &rest[inner..];
    }
    out.push_str(&source[at..range.end]);
}

struct Finder<'a> {
    source: &'a str,
    sites: Vec<Site>,
}

impl Finder<'_> {
    fn text(&self, node: &impl Spanned) -> &str {
        &self.source[node.span().byte_range()]
    }

    fn add(&mut self, node: &impl Spanned, mutant: String, is_statement: bool) {
        let span = node.span();
        self.sites.push(Site { range: span.byte_range(), line: span.start().line, mutant, is_statement });
    }
}

/// Returns the operator that replaces another; comparisons change at their bound on even lines and
/// are turned around on odd ones.
fn replacement(operator: &BinOp, line: usize) -> Option<&'static str> {
    let at_bound = line.is_multiple_of(2);
    Some(match operator {
        BinOp::Add(_) => "-",
        BinOp::Sub(_) | BinOp::Mul(_) => "+",
        BinOp::Div(_) => "*",
        BinOp::Rem(_) => "/",
        BinOp::And(_) => "||",
        BinOp::Or(_) => "&&",
        BinOp::BitXor(_) | BinOp::BitOr(_) => "&",
        BinOp::BitAnd(_) => "|",
        BinOp::Shl(_) => ">>",
        BinOp::Shr(_) => "<<",
        BinOp::Eq(_) => "!=",
        BinOp::Ne(_) => "==",
        BinOp::Lt(_) => {
            if at_bound {
                "<="
            } else {
                ">"
            }
        }
        BinOp::Le(_) => {
            if at_bound {
                "<"
            } else {
                ">"
            }
        }
        BinOp::Gt(_) => {
            if at_bound {
                ">="
            } else {
                "<"
            }
        }
        BinOp::Ge(_) => {
            if at_bound {
                ">"
            } else {
                "<"
            }
        }
        BinOp::AddAssign(_) => "-=",
        BinOp::SubAssign(_) => "+=",
        BinOp::BitAndAssign(_) => "|=",
        BinOp::BitOrAssign(_) | BinOp::BitXorAssign(_) => "&=",
        _ => return None,
    })
}

fn has_let(expr: &Expr) -> bool {
    match expr {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_test(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if item.sig.constness.is_none() && !is_test(&item.attrs) {
            visit::visit_block(self, &item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        // What `Debug` and `Display` print is no part of an algorithm.
        if item.sig.constness.is_none() && item.sig.ident != "fmt" {
            visit::visit_block(self, &item.block);
        }
    }

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
    fn visit_generic_argument(&mut self, _: &'ast syn::GenericArgument) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}

    fn visit_expr_repeat(&mut self, repeat: &'ast syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_stmt(&mut self, statement: &'ast Stmt) {
        if let Stmt::Expr(Expr::MethodCall(_) | Expr::Assign(_), Some(_)) = statement {
            self.add(statement, String::new(), true);
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let line = binary.span().start().line;
        if let Some(operator) =
            replacement(&binary.op, line).filter(|_| !has_let(&Expr::Binary(binary.clone())))
        {
            let is_assignment = operator.ends_with('=') && !matches!(operator, "==" | "!=" | "<=" | ">=");
            let (left, right) = (self.text(&binary.left), self.text(&binary.right));
            let left = if is_assignment { left.to_owned() } else { format!("({left})") };
            self.add(binary, format!("{left} {operator} ({right})"), false);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_lit(&mut self, literal: &'ast syn::ExprLit) {
        let mutant = match &literal.lit {
            Lit::Bool(value) => (!value.value).to_string(),
            Lit::Int(number) => match number.base10_parse::<u128>() {
                Ok(value) => format!("{}{}", value + 1, number.suffix()),
                Err(_) => return,
            },
            Lit::Float(number) => match number.base10_parse::<f64>() {
                Ok(value) => format!("{:?}{}", value + 1.0, number.suffix()),
                Err(_) => return,
            },
            _ => return,
        };
        self.add(literal, mutant, false);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let other = match call.method.to_string().as_str() {
            "min" => "max",
            "max" => "min",
            _ => return visit::visit_expr_method_call(self, call),
        };
        let (whole, name) = (call.span().byte_range(), call.method.span().byte_range());
        let mutant =
            [&self.source[whole.start..name.start], other, &self.source[name.end..whole.end]].concat();
        self.add(call, mutant, false);
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_if(&mut self, expr: &'ast syn::ExprIf) {
        if !matches!(&*expr.cond, Expr::Binary(_) | Expr::Let(_)) {
            let mutant = format!("!({})", self.text(&expr.cond));
            self.add(&expr.cond, mutant, false);
        }
        visit::visit_expr_if(self, expr);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
const SIX: u32 = 6;
fn f(a: u32, b: &mut [u32; 2]) -> u32 {
    b[0] += a.min(3) * 2;
    b.sort();
    if let [1, x] = b && a < *x { 1 } else { a }
}
const fn g() -> u32 { 1 + 1 }
#[cfg(test)]
mod tests { fn h() -> bool { true } }
";

    #[test]
    fn expressions_and_statements_change_and_constants_and_patterns_do_not() {
        let sites = sites(SOURCE).unwrap();
        let described: Vec<String> = sites.iter().map(|site| site.describe(SOURCE)).collect();
        assert_eq!(
            described,
            [
                "b[0] += a.min(3) * 2 → b[0] -= (a.min(3) * 2)",
                "0 → 1",
                "a.min(3) * 2 → (a.min(3)) + (2)",
                "a.min(3) → a.max(3)",
                "3 → 4",
                "2 → 3",
                "b.sort(); → removed",
                "a < *x → (a) <= (*x)",
                "1 → 2",
            ]
        );
        assert!(sites.iter().all(|site| (4..=6).contains(&site.line)));
    }

    #[test]
    fn mutants_inside_mutants_stay_in_the_unchanged_branch() {
        let source = "fn f(a: u32) -> u32 { a + 1 }";
        let sites = sites(source).unwrap();
        let chosen: Vec<(u32, &Site)> = (7..).zip(&sites).collect();
        let text = with_mutants(source, &chosen);
        let one_line = text.replace('\n', "");
        assert_eq!(
            one_line,
            "fn f(a: u32) -> u32 { (if crate::mutant::is(7) { (a) - (1) } else { a + \
             (if crate::mutant::is(8) { 2 } else { 1 }) }) }"
        );
        assert!(syn::parse_file(&text).is_ok());
    }
}
