//! A program of tests/fixtures as an image with one file.

use std::path::Path;
use std::process::Command;

use bollard::query_parameters::{CreateImageOptionsBuilder, RemoveImageOptionsBuilder};
use futures_util::TryStreamExt as _;

use super::{block, engine};

/// The image is removed from the engine in the end.
pub(crate) struct Program {
    pub(crate) image: String,
}

impl Program {
    /// Builds a fixture's Go module in `home` and makes an image whose only file is `/NAME`.
    pub(crate) fn build(name: &str, home: &Path) -> Self {
        let program = Self { image: format!("localhost/hoist-e2e/{name}:{}", std::process::id()) };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        let file = home.join(name);
        let mut go = Command::new("go");
        go.args(["build", "-trimpath", "-o"]).arg(&file).arg(".").current_dir(source);
        let built = go.env("CGO_ENABLED", "0").env("GOWORK", "off").output().expect("Go is installed");
        assert!(built.status.success(), "go build: {}", String::from_utf8_lossy(&built.stderr));
        program.import(name, &file);
        program
    }

    fn import(&self, name: &str, file: &Path) {
        let mut archive = tar::Builder::new(Vec::new());
        archive.append_path_with_name(file, name).expect("the program was built");
        let archive = archive.into_inner().expect("a tar archive in memory");
        let (repository, tag) = self.image.rsplit_once(':').expect("a tag");
        let options = CreateImageOptionsBuilder::new().from_src("-").repo(repository).tag(tag).build();
        let body = bollard::body_full(archive.into());
        let importing = engine().docker().create_image(Some(options), Some(body), None);
        block(importing.try_for_each(|_| async { Ok(()) })).expect("the engine imports an archive");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let options = RemoveImageOptionsBuilder::new().force(true).build();
        let removed = block(engine().docker().remove_image(&self.image, Some(options), None));
        if let Err(error) = removed {
            super::tell(&format!("image {} is left: {error}", self.image));
        }
    }
}
