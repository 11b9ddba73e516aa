//! Recipes: the embedded files of every image, and the hash that tells whether an image was built from them.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use super::error::ImageError;
use super::release::Release;
use super::table::{Parent, Program, Role};
use crate::digest as content;

/// Label with the Kubernetes version an image belongs to.
pub const LABEL_VERSION: &str = "dev.hoist.kubernetes-version";
/// Label with the hash of everything an image was built from.
pub const LABEL_RECIPE: &str = "dev.hoist.recipe";
/// Label with the version of the program in the image.
pub const LABEL_COMPONENT: &str = "dev.hoist.component-version";

/// A file of a recipe, as it is in the build context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecipeFile {
    /// Place in the context.
    pub path: &'static str,
    pub content: &'static str,
    pub executable: bool,
}

/// Embeds `scripts/images/<image>/<path>` as `<path>` of a context, so that the binary alone can build.
macro_rules! file {
    ($image:literal / $path:literal) => {
        $crate::images::recipe::RecipeFile {
            path: $path,
            content: include_str!(concat!("../../scripts/images/", $image, "/", $path)),
            executable: false,
        }
    };
    ($image:literal / $path:literal, executable) => {
        $crate::images::recipe::RecipeFile { executable: true, ..file!($image / $path) }
    };
}
pub(crate) use file;

/// Changed whenever the way of building changes without a change of any file.
const FORMAT: &str = "1";

/// Hash of everything that decides what an image contains: the files, the pinned sources of its programs, the
/// flags they are built with, and the same of what it is built on and what it carries.
///
/// # Errors
/// When this very program is part of the image and can't be read.
pub(crate) fn digest(role: Role, version: &str, release: &Release) -> Result<String, ImageError> {
    let spec = role.spec();
    let mut hasher = Hasher::new();
    hasher.add(FORMAT).add(spec.name).add(version);
    for file in spec.files {
        hasher.add(file.path).add(file.content).add(if file.executable { "x" } else { "-" });
    }
    let mut modules = BTreeSet::new();
    for program in spec.programs {
        hasher.add(program.path());
        match program {
            Program::Tool { module, package, .. } => {
                modules.insert(*module);
                hasher.add(package);
            }
            Program::Source { file, .. } => {
                hasher.add(file.content);
            }
            Program::Own { .. } => {
                let program = content::of_program();
                hasher.add(&program.map_err(ImageError::file("read", content::PROGRAM))?);
            }
        }
    }
    for module in &modules {
        let (go_mod, go_sum) = release.module_files(*module);
        hasher.add(go_mod).add(go_sum);
    }
    if !modules.is_empty() {
        hasher.add(&super::golang::linker_flags(version, release));
    }
    match spec.parent {
        Parent::Scratch => {}
        Parent::Base => {
            hasher.add(super::base::REFERENCE);
        }
        Parent::Images(parents) => {
            for parent in parents {
                hasher.add(&digest(*parent, version, release)?);
            }
        }
    }
    for preload in spec.preloads {
        hasher.add(&digest(*preload, version, release)?);
    }
    Ok(hasher.finish())
}

/// SHA-256 over fields with their lengths, so that no two lists of fields give the same bytes.
struct Hasher(Sha256);

impl Hasher {
    fn new() -> Self {
        Self(Sha256::new())
    }

    fn add(&mut self, field: &str) -> &mut Self {
        self.0.update((field.len() as u64).to_le_bytes());
        self.0.update(field);
        self
    }

    fn finish(self) -> String {
        content::hex(&self.0.finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::IMAGES;
    use super::*;

    #[test]
    fn the_hash_is_stable_and_its_own_for_each_image_and_version() -> Result<(), ImageError> {
        let release = Release::of("v1.36.3");
        let mut seen = BTreeSet::new();
        for spec in IMAGES {
            for version in ["v1.36.3", "v1.36.4"] {
                let hash = digest(spec.role, version, release)?;
                assert_eq!(hash, digest(spec.role, version, release)?);
                assert_eq!(hash.len(), 64);
                assert!(seen.insert(hash), "{} {version}", spec.name);
            }
        }
        Ok(())
    }

    #[test]
    fn a_changed_lock_file_changes_what_is_built_from_it_and_what_is_built_on_that() -> Result<(), ImageError>
    {
        let release = *Release::of("v1.36.3");
        let changed = Release { go_sum: "changed", ..release };
        let differs = |role| {
            Ok::<_, ImageError>(digest(role, "v1.36.3", &release)? != digest(role, "v1.36.3", &changed)?)
        };
        assert!(differs(Role::Etcd)?);
        assert!(differs(Role::Node)?);
        assert!(!differs(Role::Network)?);
        assert!(!differs(Role::Pause)?);
        Ok(())
    }

    #[test]
    fn fields_are_told_apart() {
        let hash = |fields: &[&str]| {
            let mut hasher = Hasher::new();
            for field in fields {
                hasher.add(field);
            }
            hasher.finish()
        };
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
    }
}
