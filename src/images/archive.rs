//! Archives of images, for machines without a registry: one file holds the set of a Kubernetes version.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use bollard::Docker;
use serde::Deserialize;

use super::error::ImageError;
use super::progress::Reporter;
use super::table::{Need, Role};
use super::{engine, list};

/// Most bytes of the index of an archive; ours have some thousand.
const LARGEST_INDEX: u64 = 16 << 20;

/// Name of the archive of a version.
fn file_name(version: &str) -> String {
    format!("hoist-images-{version}.tar")
}

/// The archives of a directory, in the order of their names.
fn in_directory(directory: &Path) -> Result<Vec<PathBuf>, ImageError> {
    let entries = std::fs::read_dir(directory).map_err(ImageError::file("read", directory))?;
    let mut archives: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "tar") && path.is_file())
        .collect();
    archives.sort();
    Ok(archives)
}

/// Names of the images in an archive, read from its index alone: contents are skipped, not read.
fn references(archive: &Path) -> Result<Vec<String>, ImageError> {
    #[derive(Deserialize)]
    struct Image {
        #[serde(rename = "RepoTags")]
        tags: Option<Vec<String>>,
    }

    let error = |operation| ImageError::file(operation, archive);
    let file = File::open(archive).map_err(error("open"))?;
    let mut archive_reader = tar::Archive::new(file);
    let entries = archive_reader.entries_with_seek().map_err(error("read"))?;
    for entry in entries {
        let mut entry = entry.map_err(error("read"))?;
        if entry.path().map_err(error("read"))?.as_os_str() != "manifest.json" {
            continue;
        }
        let mut text = String::new();
        // What is sparse may be larger than the archive.
        entry.by_ref().take(LARGEST_INDEX).read_to_string(&mut text).map_err(error("read"))?;
        let images: Vec<Image> =
            serde_json::from_str(&text).map_err(|source| error("read the index of")(source.into()))?;
        return Ok(images.into_iter().filter_map(|image| image.tags).flatten().collect());
    }
    // Some other tar archive.
    Ok(Vec::new())
}

/// Saves the images of a version that the engine has as one archive in a directory: at least all of
/// [`Need::Cluster`].
pub async fn save(docker: &Docker, version: &str, directory: &Path) -> Result<PathBuf, ImageError> {
    let statuses = list(docker, version).await?;
    let (present, absent): (Vec<_>, Vec<_>) = statuses.into_iter().partition(|status| status.present);
    let absent: Vec<_> =
        absent.into_iter().filter(|status| status.role.spec().need == Need::Cluster).collect();
    if !absent.is_empty() {
        let list: Vec<_> = absent.into_iter().map(|status| status.reference).collect();
        return Err(ImageError::Missing { count: list.len(), list: list.join(", ") });
    }
    std::fs::create_dir_all(directory).map_err(ImageError::file("create", directory))?;
    let references: Vec<_> = present.into_iter().map(|status| status.reference).collect();
    let path = directory.join(file_name(version));
    engine::save(docker, &references, &path).await?;
    Ok(path)
}

/// Loads every archive of a directory and returns the names of what was loaded.
pub async fn load(docker: &Docker, directory: &Path) -> Result<Vec<String>, ImageError> {
    let mut loaded = Vec::new();
    for path in in_directory(directory)? {
        loaded.extend(engine::load(docker, &path).await?);
    }
    Ok(loaded)
}

/// Loads the archives that hold something of what is missing.
pub(super) async fn load_missing(
    docker: &Docker,
    version: &str,
    directory: &Path,
    absent: &[Role],
    reporter: Reporter<'_>,
) -> Result<(), ImageError> {
    let wanted: Vec<_> = absent.iter().map(|role| role.reference(version)).collect();
    for path in in_directory(directory)? {
        if references(&path)?.iter().any(|reference| wanted.contains(reference)) {
            reporter.step("archive", format!("load {}", path.display()));
            engine::load(docker, &path).await?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "fixtures in a directory of the test's own")]
    fn the_index_of_an_archive_names_its_images() -> Result<(), Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("set.tar");
        let index = br#"[{"Config":"a.json","RepoTags":["localhost/hoist/etcd:v1.36.3"],"Layers":[]},
            {"Config":"b.json","RepoTags":null,"Layers":[]}]"#;
        let mut builder = tar::Builder::new(File::create(&path)?);
        for (name, content) in [("layer.tar", &[0_u8; 4096][..]), ("manifest.json", &index[..])] {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            builder.append_data(&mut header, name, content)?;
        }
        builder.into_inner()?;
        std::fs::write(directory.path().join("notes.txt"), "")?;

        assert_eq!(in_directory(directory.path())?, std::slice::from_ref(&path));
        assert_eq!(references(&path)?, ["localhost/hoist/etcd:v1.36.3"]);
        Ok(())
    }
}
