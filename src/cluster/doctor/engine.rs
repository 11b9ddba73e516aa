//! The engine: which, what it can give, what it runs.

use hoist_phases::phases::machines;
use hoist_phases::spec::without_user;

use super::{Facts, Silent, State, Told, Verdict};
use crate::host::capabilities;

/// That of Docker 20.10, the oldest engine that hoist is tested with.
const OLDEST_API: (u32, u32) = (1, 41);

const SYS_RESOURCE: &str = "SYS_RESOURCE";

pub(super) fn answers(facts: &Facts) -> Verdict {
    Ok(match &facts.engine {
        Ok(engine) => Told::new(format!("{} {} at {}", engine.product, engine.version, engine.endpoint)),
        Err(why) => Told::new("none").with(
            State::Fail,
            why,
            "start Docker or Podman's service, or point DOCKER_HOST at an engine",
        ),
    })
}

pub(super) fn api_version(facts: &Facts) -> Verdict {
    let text = &facts.engine.as_ref()?.api_version;
    let version = text.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let version: (u32, u32) = version.ok_or_else(|| Silent::Unknown(format!("{text:?} is no version")))?;
    Ok(Told::new(format!("API {text}")).when(
        version < OLDEST_API,
        State::Fail,
        "use Docker 20.10 or newer, or Podman 4 or newer",
    ))
}

pub(super) fn can_give(facts: &Facts) -> Verdict {
    let bounding = facts.host.as_ref()?.bounding.as_ref();
    let bounding =
        bounding.ok_or_else(|| Silent::Unknown("no process of the engine's was seen".to_owned()))?;
    let outside = capabilities::missing(bounding.capabilities);
    let missing: Vec<_> =
        outside.iter().copied().filter(|name| machines::CAPABILITIES.contains(name)).collect();
    let seen = match outside.is_empty() {
        true => format!("{} has all", bounding.process),
        false => format!("{} lacks {}", bounding.process, outside.join(", ")),
    };
    let told = Told::new(seen.clone());
    let told = match missing.is_empty() {
        true => told,
        false => told.with(
            State::Fail,
            format!("nodes in containers need {}", missing.join(", ")),
            "give them to the engine's service (CapabilityBoundingSet of its systemd unit), or use another engine",
        ),
    };
    Ok(match outside.contains(&SYS_RESOURCE) {
        true => told.with(
            State::Warn,
            seen,
            "nothing has to be done: hoist never asks for it, takes limits that need none, and nodes' containerd keeps to \
             the engine's OOM scores; a pod that is privileged is refused, though",
        ),
        false => told,
    })
}

pub(super) fn cgroups(facts: &Facts) -> Verdict {
    let engine = facts.engine.as_ref()?;
    let silent = || Silent::Unknown("the engine doesn't tell".to_owned());
    let version = engine.cgroup_version.as_deref().ok_or_else(silent)?;
    let driver = engine.cgroup_driver.as_deref().unwrap_or("an unknown one");
    Ok(Told::new(format!("version {version}, driver {driver}")).when(
        version == "1",
        State::Warn,
        "nodes of hoist's run all the same (failCgroupV1: false); for what needs version 2, such as swap limits, boot \
         the engine's host with systemd.unified_cgroup_hierarchy=1",
    ))
}

pub(super) fn proxies(facts: &Facts) -> Verdict {
    let here = facts.environment.iter().map(|(name, value)| format!("{name}={}", without_user(value)));
    let [http, https, direct] = match &facts.engine {
        Ok(engine) => engine.proxies.clone(),
        Err(_) => [None, None, None],
    };
    let of_engine = [("HTTP", http), ("HTTPS", https), ("none for", direct)].into_iter();
    let of_engine = of_engine.filter_map(|(name, value)| Some(format!("{name} {}", without_user(&value?))));
    let (here, of_engine): (Vec<_>, Vec<_>) = (here.collect(), of_engine.collect());
    let mut seen = match here.is_empty() {
        true => "none in the environment".to_owned(),
        false => format!("{}: no container of hoist's is given them", here.join(", ")),
    };
    if !of_engine.is_empty() {
        seen += &format!("; the engine itself pulls through {}", of_engine.join(", "));
    }
    Ok(Told::new(seen))
}

pub(super) fn images(facts: &Facts) -> Verdict {
    let (images, engine) = (facts.images.as_ref()?, facts.engine.as_ref()?);
    let (there, missing): (Vec<_>, Vec<_>) =
        images.iter().partition(|(_, architecture)| architecture.is_some());
    let mut told = Told::new(format!("{} of {} for {}", there.len(), images.len(), engine.architecture));
    for (name, architecture) in there {
        let architecture = architecture.as_deref().unwrap_or_default();
        if architecture != engine.architecture {
            told = told.with(
                State::Fail,
                format!("{name} is for {architecture}, the engine's machine is {}", engine.architecture),
                "get it anew on this machine: `hoist images ensure`",
            );
        }
    }
    if missing.is_empty() {
        return Ok(told);
    }
    let names: Vec<_> = missing.iter().map(|(name, _)| name.as_str()).collect();
    Ok(told.with(
        State::Warn,
        format!("missing: {}", names.join(", ")),
        "`hoist images ensure` gets or builds them",
    ))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{facts, judged};
    use super::*;
    use crate::error::BoxError;
    use crate::host::{Bounding, HostReport};
    use crate::runtime::About;

    type Check = Result<(), BoxError>;

    #[test]
    fn an_engine_that_does_not_answer_fails_and_the_rest_is_unknown() -> Check {
        let facts = facts()?;
        assert_eq!(judged(&facts, "engine").0, State::Fail);
        for id in ["engine-api", "cgroups", "image-platforms", "memory", "clock", "open-files"] {
            assert_eq!(judged(&facts, id).0, State::Unknown, "{id}");
        }
        Ok(())
    }

    #[test]
    fn versions_on_both_sides_of_the_bound() -> Check {
        let mut facts = facts()?;
        for (api, cgroup, states) in [
            ("1.41", "2", (State::Ok, State::Ok)),
            ("1.40", "1", (State::Fail, State::Warn)),
            ("2.0", "1", (State::Ok, State::Warn)),
            ("?", "2", (State::Unknown, State::Ok)),
        ] {
            facts.engine = Ok(About {
                api_version: api.to_owned(),
                cgroup_version: Some(cgroup.to_owned()),
                ..About::default()
            });
            assert_eq!(
                (judged(&facts, "engine-api").0, judged(&facts, "cgroups").0),
                states,
                "{api} {cgroup}"
            );
        }
        Ok(())
    }

    #[test]
    fn capabilities_that_nodes_need_are_told_from_one_they_do_without() -> Check {
        let mut facts = facts()?;
        for (set, state, word) in [
            (0x01ff_ffff_ffff, State::Ok, "has all"),
            (0x01ff_feff_ffff, State::Warn, "lacks SYS_RESOURCE"),
            (0x01ff_ffff_ffff & !(1 << 21), State::Fail, "need SYS_ADMIN"),
        ] {
            let bounding = Bounding { process: "containerd".to_owned(), capabilities: set };
            facts.host = Ok(HostReport { bounding: Some(bounding), ..HostReport::default() });
            let (told, words) = judged(&facts, "engine-capabilities");
            assert!(told == state && words.contains(word), "{set:x}: {words}");
        }
        Ok(())
    }

    #[test]
    fn kubeadm_687_proxies_are_told_without_their_passwords() -> Check {
        let mut facts = facts()?;
        facts.environment = vec![("HTTPS_PROXY", "http://me:secret@proxy:3128".to_owned())];
        let (state, words) = judged(&facts, "proxies");
        assert_eq!(state, State::Ok);
        assert!(words.contains("HTTPS_PROXY=http://proxy:3128") && !words.contains("secret"), "{words}");
        Ok(())
    }

    #[test]
    fn an_image_of_another_machine_fails_and_a_missing_one_warns() -> Check {
        let mut facts = facts()?;
        facts.engine = Ok(About { architecture: "amd64".to_owned(), ..About::default() });
        let image = |architecture: Option<&str>| ("a:1".to_owned(), architecture.map(str::to_owned));
        for (images, state) in [
            (vec![image(Some("amd64"))], State::Ok),
            (vec![image(None)], State::Warn),
            (vec![image(None), image(Some("arm64"))], State::Fail),
        ] {
            facts.images = Ok(images);
            assert_eq!(judged(&facts, "image-platforms").0, state);
        }
        Ok(())
    }
}
