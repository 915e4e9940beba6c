//! What `rules convert` writes, loaded by the programs of netfilter.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::hosts::Family;
use super::network::Network;
use super::{Bench, Loader};

impl Bench {
    /// Returns where the kernel forwards more or fewer packets with a converted file than with the
    /// original. A conversion that is refused is no difference.
    pub(super) fn converted(
        &self,
        loader: Loader,
        is_tracked: bool,
        rules: &Path,
        trace: &Path,
        (sent, expected): (usize, u64),
    ) -> Result<Vec<String>> {
        let mut differences = Vec::new();
        for form in ["nft", "iptables"] {
            let network = Network::new(self.seed)?;
            let mut is_whole = true;
            let families = loader.families();
            for &family in if form == "nft" { &families[..1] } else { families } {
                let name = if family == Family::V4 { "ipv4" } else { "ipv6" };
                let mut command = Command::new(&self.flowloom);
                command.args(["rules", "convert"]).arg(rules).args(["--to", form, "-q"]);
                command.args(&loader.chain_options()[..2]);
                if self.has_sets.get() {
                    command.arg("--sets").arg(self.sets());
                }
                if loader != Loader::Nft || form == "iptables" {
                    command.args(["--family", name]);
                }
                let output = command.output()?;
                let text = String::from_utf8_lossy(&output.stdout);
                if !output.status.success() {
                    is_whole = false;
                    break;
                }
                std::fs::write(self.folder.join(format!("converted-{form}-{name}")), text.as_bytes())?;
                let program = if form == "nft" {
                    network.router(&["nft", "-f", "-"], Some(&text))
                } else {
                    network.router(&[&Loader::Legacy(family).program("-restore")], Some(&text))
                };
                if let Err(error) = program {
                    differences.push(format!("  converted to {form}: {error:#}"));
                    is_whole = false;
                    break;
                }
            }
            let [loaded, refused] = self.conversions.get();
            self.conversions.set([loaded + u64::from(is_whole), refused + u64::from(!is_whole)]);
            if !is_whole {
                continue;
            }
            if is_tracked {
                // Connection tracking is there once a rule asks for it, which may have been dead.
                let _ = network.relax_tracking();
            }
            network.count_forwarded()?;
            network.send(&self.flowloom, trace)?;
            let forwarded = network.forwarded(sent)?;
            if forwarded != expected {
                differences.push(format!("  converted to {form}: forwarded {forwarded}, not {expected}"));
            }
        }
        Ok(differences)
    }
}
