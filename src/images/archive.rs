//! Archives of images, for machines without a registry: one file holds the set of a Kubernetes version.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::ImageError;

/// Name of the archive of a version.
pub(crate) fn file_name(version: &str) -> String {
    format!("hoist-images-{version}.tar")
}

/// The archives of a directory, in the order of their names.
pub(crate) fn in_directory(directory: &Path) -> Result<Vec<PathBuf>, ImageError> {
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
pub(crate) fn references(archive: &Path) -> Result<Vec<String>, ImageError> {
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
        entry.read_to_string(&mut text).map_err(error("read"))?;
        let images: Vec<Image> =
            serde_json::from_str(&text).map_err(|source| error("read the index of")(source.into()))?;
        return Ok(images.into_iter().filter_map(|image| image.tags).flatten().collect());
    }
    // Some other tar archive.
    Ok(Vec::new())
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
