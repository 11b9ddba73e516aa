//! Arguments and limits of single components.

use std::collections::BTreeMap;

use hoist_phases::spec::{Component, ComponentSpec};

use super::file::ComponentFile;
use super::problem::{Problem, Problems};
use super::resolve::{Given, converted};
use super::units;

/// Least memory a component starts in; with less the engine refuses or the kernel kills at once.
const MIN_MEMORY: u64 = 16 << 20;

/// Puts what the file says about components into their specifications.
pub(super) fn apply(
    specs: &mut Vec<ComponentSpec>,
    files: BTreeMap<String, ComponentFile>,
    problems: &mut Problems,
) {
    for (name, ComponentFile { extra_args, memory, cpus }) in files {
        let Some(component) = Component::ALL.into_iter().find(|component| component.name() == name) else {
            let names = Component::ALL.map(Component::name).join(", ");
            problems.push(Problem::new(
                "components",
                format_args!("{name:?}"),
                format_args!("must be one of {names}"),
            ));
            continue;
        };
        let mut spec = ComponentSpec::default_for(component);
        if let Some(value) = memory {
            let given = Given { field: "components.*.memory", value };
            if let Some(bytes) = problems.keep(converted(&given, units::bytes)) {
                spec.memory_bytes = bytes;
            }
            if spec.memory_bytes < MIN_MEMORY {
                problems.push(Problem::new(
                    "components.*.memory",
                    format_args!("of {name}"),
                    "must be 16Mi or more",
                ));
            }
        }
        if let Some(value) = cpus {
            let given = Given { field: "components.*.cpus", value };
            if let Some(millis) = problems.keep(converted(&given, units::cpu_millis)) {
                spec.cpu_millis = millis;
            }
        }
        problems_of_args(component, &extra_args, problems);
        spec.extra_args = extra_args;
        specs.retain(|other| other.component != component);
        specs.push(spec);
    }
    specs.sort_by_key(|spec| spec.component);
}

fn problems_of_args(component: Component, args: &BTreeMap<String, String>, problems: &mut Problems) {
    let mut refuse = |flag: &str, value: &str, rule: &str| {
        problems.push(Problem::new(
            &format!("components.{component}.extraArgs.{flag}"),
            format_args!("{value:?}"),
            rule,
        ));
    };
    for (flag, value) in args {
        let malformed = flag.is_empty() || flag.starts_with('-') || flag.contains(['=', ' ', '\n']);
        match (component, flag.as_str()) {
            _ if malformed => refuse(flag, value, "a flag is written without dashes and `=`, such as `v`"),
            (Component::Owner, _) => {
                refuse(flag, value, "this container only holds the network namespace; it takes no flags")
            }
            // Discovery by token reads cluster-info before it has any identity (kubeadm join).
            (Component::ApiServer, "anonymous-auth") if value != "true" => refuse(
                flag,
                value,
                "kubeadm join reads cluster-info anonymously; to restrict it use authentication-config with anonymous.conditions instead",
            ),
            // Both are off by default in kube-controller-manager, and `*` doesn't turn them on.
            (Component::ControllerManager, "controllers") => {
                let names: Vec<_> = value.split(',').map(str::trim).collect();
                if !["bootstrapsigner", "tokencleaner"].iter().all(|wanted| names.contains(wanted)) {
                    refuse(
                        flag,
                        value,
                        "must keep bootstrapsigner and tokencleaner, which nodes need to join",
                    );
                }
            }
            _ => {}
        }
    }
}
