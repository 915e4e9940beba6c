//! Namespaces and pods: labels, addresses and named ports.
//!
//! ```yaml
//! namespaces:
//!   shop: {team: red}
//! pods:
//! - {namespace: shop, labels: {app: web}, ips: [10.1.0.5], ports: {http: 8080}}
//! ```

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::ipset;
use super::super::yaml::Yaml;
use super::Wrong;
use crate::firewall::Ranges;
use crate::rule::decimal;

type Labels = BTreeMap<String, String>;

/// A pod with its own addresses.
#[derive(Debug)]
pub(super) struct Pod {
    pub(super) namespace: String,
    labels: Labels,
    /// IPv4 and IPv6 addresses.
    addresses: [Vec<u128>; 2],
    /// Name, protocol and number of each named port.
    ports: Vec<(String, u8, u16)>,
}

/// The known objects of a cluster.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    namespaces: BTreeMap<String, Labels>,
    pub(super) pods: Vec<Pod>,
}

impl Cluster {
    /// Adds an object; returns `false` if it contains no addresses.
    pub(super) fn take(&mut self, object: &Yaml) -> Result<bool, Wrong> {
        match object.text_of("kind") {
            Some("Namespace") => {
                let name = name_of(object)?;
                let labels = object.get("metadata").map(|m| labels(m, "labels")).transpose()?;
                self.namespaces.insert(name, labels.unwrap_or_default());
                Ok(true)
            }
            Some("Pod") => {
                self.take_pod(object)?;
                Ok(true)
            }
            None if object.has("pods") || object.has("namespaces") => {
                self.take_short(object)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn take_pod(&mut self, object: &Yaml) -> Result<(), Wrong> {
        let metadata =
            object.get("metadata").ok_or_else(|| Wrong::new(object.line, "a pod without metadata"))?;
        let (spec, status) = (object.get("spec"), object.get("status"));
        // A pod in the host's network has no address of its own, and neither has a pod that has
        // ended.
        let is_host = spec.and_then(|spec| spec.text_of("hostNetwork")) == Some("true");
        let has_ended =
            matches!(status.and_then(|status| status.text_of("phase")), Some("Succeeded" | "Failed"));
        if is_host || has_ended {
            return Ok(());
        }
        let mut pod = Pod {
            namespace: String::from(metadata.text_of("namespace").unwrap_or("default")),
            labels: labels(metadata, "labels")?,
            addresses: Default::default(),
            ports: Vec::new(),
        };
        if let Some(status) = status {
            let all = status.list("podIPs").iter().filter_map(|one| one.get("ip"));
            for address in all.chain(status.get("podIP")) {
                pod.take_address(address)?;
            }
        }
        for container in spec.map_or(&[][..], |spec| spec.list("containers")) {
            for port in container.list("ports") {
                let Some(name) = port.text_of("name") else { continue };
                let number = port.text_of("containerPort").and_then(decimal);
                let number =
                    number.ok_or_else(|| Wrong::new(port.line, "containerPort must be from 1 to 65535"))?;
                let protocol = protocol(port, port.text_of("protocol"))?;
                pod.ports.push((String::from(name), protocol, number));
            }
        }
        self.pods.push(pod);
        Ok(())
    }

    /// Takes the short form.
    fn take_short(&mut self, object: &Yaml) -> Result<(), Wrong> {
        Wrong::unless_known(object, "an address map", &["namespaces", "pods"])?;
        for (name, _, _) in object.get("namespaces").map_or(&[][..], Yaml::fields) {
            let labels = object.get("namespaces").map(|all| labels(all, name)).transpose()?;
            self.namespaces.insert(name.clone(), labels.unwrap_or_default());
        }
        for one in object.list("pods") {
            Wrong::unless_known(one, "a pod", &["name", "namespace", "labels", "ip", "ips", "ports"])?;
            let mut pod = Pod {
                namespace: String::from(one.text_of("namespace").unwrap_or("default")),
                labels: labels(one, "labels")?,
                addresses: Default::default(),
                ports: Vec::new(),
            };
            for address in one.list("ips").iter().chain(one.get("ip")) {
                pod.take_address(address)?;
            }
            for (name, line, number) in one.get("ports").map_or(&[][..], Yaml::fields) {
                let number = number
                    .text()
                    .and_then(decimal)
                    .ok_or_else(|| Wrong::new(*line, format!("port '{name}' must be from 1 to 65535")))?;
                // The short form does not distinguish protocols.
                pod.ports.extend([6, 17, 132].map(|protocol| (name.clone(), protocol, number)));
            }
            self.pods.push(pod);
        }
        Ok(())
    }

    /// Returns the labels of a namespace. Kubernetes gives each namespace its name as a label.
    fn namespace(&self, name: &str) -> Labels {
        let mut labels = self.namespaces.get(name).cloned().unwrap_or_default();
        labels.insert(String::from("kubernetes.io/metadata.name"), String::from(name));
        labels
    }

    /// Returns the pods that selectors select: in one namespace, or in the namespaces that a
    /// selector selects.
    pub(super) fn select(
        &self,
        pods: Option<&Yaml>,
        namespaces: Option<&Yaml>,
        own_namespace: &str,
    ) -> Result<Vec<&Pod>, Wrong> {
        let pods = pods.map(Selector::parse).transpose()?;
        let namespaces = namespaces.map(Selector::parse).transpose()?;
        let is_selected = |pod: &&Pod| {
            let is_in = match &namespaces {
                Some(selector) => selector.matches(&self.namespace(&pod.namespace)),
                None => pod.namespace == own_namespace,
            };
            is_in && pods.as_ref().is_none_or(|selector| selector.matches(&pod.labels))
        };
        Ok(self.pods.iter().filter(is_selected).collect())
    }
}

impl Pod {
    fn take_address(&mut self, address: &Yaml) -> Result<(), Wrong> {
        let text = address.text().unwrap_or_default();
        let is_v6 = text.contains(':');
        match ipset::addresses(text, is_v6) {
            Some((low, high)) if low == high => {
                let addresses = &mut self.addresses[usize::from(is_v6)];
                if !addresses.contains(&low) {
                    addresses.push(low);
                }
                Ok(())
            }
            _ => Err(Wrong::new(address.line, format!("'{text}' is not an address such as 10.1.0.5"))),
        }
    }

    /// Returns the number of a port by its name.
    pub(super) fn port(&self, name: &str, protocol: u8) -> Option<u16> {
        self.ports.iter().find(|(n, p, _)| n == name && *p == protocol).map(|&(.., number)| number)
    }
}

/// Returns the IPv4 and IPv6 addresses of pods.
pub(super) fn addresses(pods: &[&Pod]) -> [Ranges; 2] {
    [0, 1].map(|family| {
        Ranges::new(pods.iter().flat_map(|pod| pod.addresses[family].iter().map(|&one| (one, one))))
    })
}

/// Returns the number of a Kubernetes protocol; TCP if none is named.
pub(super) fn protocol(node: &Yaml, name: Option<&str>) -> Result<u8, Wrong> {
    match name {
        None | Some("TCP") => Ok(6),
        Some("UDP") => Ok(17),
        Some("SCTP") => Ok(132),
        Some(other) => {
            Err(Wrong::new(node.line, format!("'{other}' is not a protocol: write TCP, UDP or SCTP")))
        }
    }
}

/// Returns the name of an object.
pub(super) fn name_of(object: &Yaml) -> Result<String, Wrong> {
    let name = object.get("metadata").and_then(|metadata| metadata.text_of("name"));
    name.map(String::from).ok_or_else(|| Wrong::new(object.line, "metadata.name is missing"))
}

fn labels(node: &Yaml, key: &str) -> Result<Labels, Wrong> {
    let Some(map) = node.get(key) else { return Ok(Labels::new()) };
    map.fields()
        .iter()
        .map(|(name, line, value)| {
            let text =
                value.text().ok_or_else(|| Wrong::new(*line, format!("label '{name}' is not text")))?;
            Ok((name.clone(), String::from(text)))
        })
        .collect()
}

/// A selector's requirement on one label.
#[derive(Debug)]
enum Ask {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

/// A selector of labels: all requirements must hold.
#[derive(Debug)]
struct Selector(Vec<(String, Ask)>);

impl Selector {
    fn parse(node: &Yaml) -> Result<Self, Wrong> {
        Wrong::unless_known(node, "a selector", &["matchLabels", "matchExpressions"])?;
        let equal = labels(node, "matchLabels")?;
        let mut all: Vec<(String, Ask)> =
            equal.into_iter().map(|(key, value)| (key, Ask::In(Vec::from([value])))).collect();
        for one in node.list("matchExpressions") {
            Wrong::unless_known(one, "an expression", &["key", "operator", "values"])?;
            let key = one.text_of("key").ok_or_else(|| Wrong::new(one.line, "key is missing"))?;
            let values = || one.list("values").iter().filter_map(|v| v.text().map(String::from)).collect();
            let ask = match one.text_of("operator") {
                Some("In") => Ask::In(values()),
                Some("NotIn") => Ask::NotIn(values()),
                Some("Exists") => Ask::Exists,
                Some("DoesNotExist") => Ask::DoesNotExist,
                other => {
                    let other = other.unwrap_or("");
                    let message =
                        format!("'{other}' is not an operator: write In, NotIn, Exists or DoesNotExist");
                    return Err(Wrong::new(one.line, message));
                }
            };
            if matches!(&ask, Ask::In(values) | Ask::NotIn(values) if values.is_empty()) {
                return Err(Wrong::new(one.line, "In and NotIn need values"));
            }
            all.push((String::from(key), ask));
        }
        Ok(Self(all))
    }

    fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|(key, ask)| {
            let value = labels.get(key);
            match ask {
                Ask::In(values) => value.is_some_and(|value| values.contains(value)),
                Ask::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Ask::Exists => value.is_some(),
                Ask::DoesNotExist => value.is_none(),
            }
        })
    }
}
