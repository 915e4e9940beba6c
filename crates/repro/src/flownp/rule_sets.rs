//! Replacements for SET01 to SET07 [FLOWNP §6.2], which are no longer available.
//!
//! They are seeded samples of larger sets of the same kind, in their original order, with a default
//! rule at the end. The beginning of a file would be too easy, because its rules are all specific.
//! Sets of other kinds, which are not in the paper, are listed separately.

use flowloom::classifier::aggrecuts::{AggreCuts, Limits, Sharing, Stride};
use flowloom::classifier::synth::{self, Profile};
use flowloom::classifier::{BuildError, FirstMatch, Rule, RuleSet};
use flowloom::rules::load::{LoadLimits, classbench};

use crate::experiment::{Context, ItemError};
use crate::rivals::RivalClassifier;
use crate::variation::Guess;

/// The paper states the number of rules of SET01 and SET07; the sizes between them are
/// interpolated.
const SIZES: [usize; 7] = [68, 120, 250, 500, 750, 1000, 1530];

/// The sub-trees that an AggreCuts tree stores once.
pub(super) const SHARING: Guess = Guess::new(
    "sharing",
    "",
    0.0,
    &[1.0],
    "equal sub-trees of AggreCuts that are stored once: 0 those below one node, as published, 1 all",
);

/// Returns which sub-trees are shared in this context.
pub(super) fn sharing(context: &Context<'_>) -> Sharing {
    if context.guess(&SHARING) > 0.5 { Sharing::Everywhere } else { Sharing::Siblings }
}

/// A rule set with a name.
pub(super) struct NamedSet {
    pub(super) name: String,
    pub(super) rules: RuleSet,
}

/// The replacements of the paper's sets, and their origin.
pub(super) struct StandIns {
    /// In order of size.
    pub(super) like_the_papers: Vec<NamedSet>,
    /// Sets of other kinds: firewalls and chains of packet filters.
    pub(super) harder: Vec<NamedSet>,
    pub(super) note: String,
}

/// Returns the replacements, in as many sizes as the scale allows.
pub(super) fn stand_ins(context: &Context<'_>) -> Result<StandIns, ItemError> {
    let sizes = &SIZES[..context.scale.pick(2, 7, 7)];
    let access_list = source(context, "acl1_10k", Profile::Acl)?;
    let like_the_papers = sizes
        .iter()
        .map(|&size| {
            Ok(NamedSet { name: format!("{size} rules"), rules: sample(&access_list, size, context.seed)? })
        })
        .collect::<Result<Vec<_>, ItemError>>()?;
    let count = context.scale.pick(120, 500, 1000);
    let mut harder = Vec::new();
    for (name, file, profile) in
        [("firewall", "fw1_10k", Profile::Firewall), ("packet filter", "ipc1_10k", Profile::PacketFilter)]
    {
        let from = source(context, file, profile)?;
        harder.push(NamedSet {
            name: format!("{name}, {count}"),
            rules: sample(&from, count, context.seed)?,
        });
    }
    let from = if context.data.is_some() {
        "the data directory's 10,000-rule sets"
    } else {
        "generated sets of 10,000 rules"
    };
    let note = format!(
        "SET01 to SET07 are not available: samples of {from}, seed {}, order kept, a default rule added; firewall and packet \
         filter are not in the paper",
        context.seed
    );
    Ok(StandIns { like_the_papers, harder, note })
}

/// Returns a large set: a file of the data directory, or a generated set.
fn source(context: &Context<'_>, file: &str, profile: Profile) -> Result<Vec<Rule>, ItemError> {
    if let Some(path) = context.data_file(&format!("rules/{file}")) {
        let text = std::fs::read_to_string(&path).map_err(ItemError::during(format!("reading {file}")))?;
        return classbench::parse(&text, LoadLimits::default())
            .map_err(|error| error.in_file(file))
            .map_err(ItemError::during("reading rules"));
    }
    let set = synth::rules(profile, 10_000, context.seed, false)
        .map_err(ItemError::during("generating rules"))?;
    Ok(set.rules().to_vec())
}

fn sample(rules: &[Rule], size: usize, seed: u64) -> Result<RuleSet, ItemError> {
    // Each rule is taken with a probability that results in the required number of rules.
    let mut state = seed ^ size as u64;
    let mut taken = Vec::with_capacity(size);
    for (i, rule) in rules.iter().enumerate() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (wanted, left) = (size - 1 - taken.len(), rules.len() - i);
        if ((state >> 33) as usize) % left < wanted {
            taken.push(*rule);
        }
    }
    taken.push(Rule::ANY);
    RuleSet::new(taken).map_err(ItemError::during("making a set"))
}

/// Builds the classifier of a rival; returns `None` if a limit stops it.
pub(super) fn rival(
    rival: &RivalClassifier,
    set: &NamedSet,
) -> Result<Option<Box<dyn FirstMatch>>, ItemError> {
    match (rival.make)(&set.rules) {
        Ok(found) => Ok(Some(found)),
        Err(BuildError::Memory { .. } | BuildError::BaseOverflow { .. } | BuildError::Work { .. }) => {
            Ok(None)
        }
        Err(error) => Err(ItemError::during(format!("building {} over {}", rival.name, set.name))(error)),
    }
}

/// Builds a tree; returns `None` if it exceeds the address range of the paper's word.
pub(super) fn aggrecuts(
    set: &NamedSet,
    stride: Stride,
    sharing: Sharing,
) -> Result<Option<AggreCuts>, ItemError> {
    match AggreCuts::build(&set.rules, stride, sharing, Limits::default()) {
        Ok(tree) => Ok(Some(tree)),
        Err(BuildError::Memory { .. } | BuildError::BaseOverflow { .. } | BuildError::Work { .. }) => {
            Ok(None)
        }
        Err(error) => Err(ItemError::during(format!("building AggreCuts over {}", set.name))(error)),
    }
}
