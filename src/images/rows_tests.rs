//! What holds for every row of the table of images.

use super::*;

const ROLES: [Role; 17] = [
    Role::Etcd,
    Role::Kine,
    Role::ApiServer,
    Role::ControllerManager,
    Role::Scheduler,
    Role::KubeProxy,
    Role::CoreDns,
    Role::Pause,
    Role::KubeRouter,
    Role::KonnectivityServer,
    Role::KonnectivityAgent,
    Role::Network,
    Role::Tools,
    Role::Node,
    Role::Vm,
    Role::Registry,
    Role::Gocli,
];

#[test]
fn every_role_has_exactly_one_row() {
    assert_eq!(IMAGES.len(), ROLES.len());
    for role in ROLES {
        assert_eq!(role.spec().role, role);
        assert_eq!(IMAGES.iter().filter(|spec| spec.role == role).count(), 1);
    }
}

#[test]
fn contexts_start_with_a_dockerfile_and_have_no_path_twice() {
    for spec in IMAGES {
        let mut paths: Vec<_> = spec.files.iter().map(|file| file.path).collect();
        assert_eq!(paths.first(), Some(&"Dockerfile"), "{}", spec.name);
        paths.extend(spec.programs.iter().map(Program::path));
        let count = paths.len();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), count, "{}", spec.name);
    }
}

/// A file that is written and forgotten here would be missed when the image is built, if not later.
#[test]
fn every_file_of_a_recipe_is_in_its_context() -> std::io::Result<()> {
    fn below(dir: &std::path::Path, found: &mut Vec<std::path::PathBuf>) -> std::io::Result<()> {
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            if path.is_dir() { below(&path, found)? } else { found.push(path) }
        }
        Ok(())
    }
    let recipes = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/images");
    for spec in IMAGES {
        let dir = recipes.join(spec.name);
        let mut written = Vec::new();
        below(&dir, &mut written)?;
        let sources = spec.programs.iter().filter_map(|program| match program {
            Program::Source { file, .. } => Some(file.path),
            _ => None,
        });
        let embedded: Vec<_> =
            spec.files.iter().map(|file| file.path).chain(sources).map(|path| dir.join(path)).collect();
        written.retain(|path| !embedded.contains(path));
        assert_eq!(written, Vec::<std::path::PathBuf>::new(), "forgotten in {}", spec.name);
    }
    Ok(())
}

#[test]
fn programs_of_one_name_are_one_program() {
    let mut packages = std::collections::BTreeMap::new();
    for program in IMAGES.iter().flat_map(|spec| spec.programs) {
        let package = match program {
            Program::Tool { package, .. } => package,
            Program::Source { file, .. } => file.content,
            Program::Own { .. } => "hoist",
        };
        assert_eq!(*packages.entry(program.file_name()).or_insert(package), package);
    }
}

#[test]
fn a_script_that_goes_into_an_image_can_be_executed() {
    for spec in IMAGES {
        // At the top of a context lie the scripts that a build step runs by `sh`.
        for file in spec.files.iter().filter(|file| file.path.contains('/')) {
            assert_eq!(file.executable, file.content.starts_with("#!"), "{} {}", spec.name, file.path);
        }
    }
}

#[test]
fn recipes_take_the_arguments_that_they_are_given() {
    for spec in IMAGES {
        let dockerfile = spec.files.first().map_or("", |file| file.content);
        let arguments: Vec<_> = dockerfile.lines().filter_map(|line| line.strip_prefix("ARG ")).collect();
        let parents = match spec.parent {
            Parent::Images(roles) => roles,
            Parent::Scratch | Parent::Base => &[],
        };
        for role in parents {
            assert!(arguments.contains(&role.argument().as_str()), "{}: {}", spec.name, role.name());
        }
    }
}
