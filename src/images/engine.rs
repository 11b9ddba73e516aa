//! The few operations on the engine that images need, with errors that say which image.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use bollard::Docker;
use bollard::body_try_stream;
use bollard::errors::Error as EngineError;
use bollard::models::ImageInspect;
use bollard::query_parameters::{
    BuildImageOptionsBuilder, CreateImageOptionsBuilder, ImportImageOptionsBuilder,
    PruneImagesOptionsBuilder, RemoveImageOptions, TagImageOptionsBuilder,
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt};
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

use super::error::ImageError;
use super::progress::{Reporter, Tail};
use crate::pieces;

/// Requests that carry an image may take long before the first byte of their answer.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// The image of a reference, or `None` where the engine has none.
pub(crate) async fn inspect(docker: &Docker, reference: &str) -> Result<Option<ImageInspect>, ImageError> {
    match docker.inspect_image(reference).await {
        Ok(image) => Ok(Some(image)),
        Err(EngineError::DockerResponseServerError { status_code: 404, .. }) => Ok(None),
        Err(source) => Err(ImageError::Inspect { reference: reference.to_owned(), source }),
    }
}

/// Gives an image one more name.
pub(crate) async fn tag(docker: &Docker, reference: &str, new: &str) -> Result<(), ImageError> {
    let (repository, tag) = split(new);
    let options = TagImageOptionsBuilder::new().repo(repository).tag(tag).build();
    docker.tag_image(reference, Some(options)).await.map_err(|source| ImageError::Tag {
        reference: reference.to_owned(),
        tag: new.to_owned(),
        source,
    })
}

/// Repository and tag; the colon of a registry's port is no tag.
pub(crate) fn split(reference: &str) -> (&str, &str) {
    match reference.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => (repository, tag),
        _ => (reference, "latest"),
    }
}

/// Architecture of the engine, by Go's name for it.
pub(crate) async fn architecture(docker: &Docker) -> Result<String, ImageError> {
    let version = docker
        .version()
        .await
        .map_err(|source| ImageError::Engine { what: "its version".to_owned(), source })?;
    Ok(version.arch.unwrap_or_else(|| "amd64".to_owned()))
}

/// Makes an image of a root file system.
pub(crate) async fn import(docker: &Docker, archive: &Path, reference: &str) -> Result<(), ImageError> {
    let (repository, tag) = split(reference);
    let options = CreateImageOptionsBuilder::new().from_src("-").repo(repository).tag(tag).build();
    let body = body_try_stream(read(archive).await?);
    docker
        .clone()
        .with_timeout(PATIENCE)
        .create_image(Some(options), Some(body), None)
        .try_for_each(|_| async { Ok(()) })
        .await
        .map_err(|source| ImageError::Import { reference: reference.to_owned(), source })
}

/// Loads an archive of images and returns their names.
pub(crate) async fn load(docker: &Docker, archive: &Path) -> Result<Vec<String>, ImageError> {
    let options = ImportImageOptionsBuilder::new().quiet(true).build();
    let engine = docker.clone().with_timeout(PATIENCE);
    let mut answers = engine.import_image_stream(options, read(archive).await?.map_ok(Into::into), None);
    let mut loaded = Vec::new();
    while let Some(answer) = answers.next().await {
        let answer = answer.map_err(|source| ImageError::Load { archive: archive.to_path_buf(), source })?;
        let line = answer.stream.unwrap_or_default();
        loaded.extend(line.trim().strip_prefix("Loaded image: ").map(str::to_owned));
    }
    Ok(loaded)
}

/// Saves images as one archive, in which they share their layers.
pub(crate) async fn save(docker: &Docker, references: &[String], archive: &Path) -> Result<(), ImageError> {
    let partial = archive.with_extension("partial");
    let file_error = |operation| ImageError::file(operation, &partial);
    let mut file = tokio::fs::File::create(&partial).await.map_err(file_error("create"))?;
    let names: Vec<&str> = references.iter().map(String::as_str).collect();
    let engine = docker.clone().with_timeout(PATIENCE);
    let mut pieces = std::pin::pin!(engine.export_images(&names));
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|source| ImageError::Save { archive: archive.to_path_buf(), source })?;
        file.write_all(&piece).await.map_err(file_error("write"))?;
    }
    file.flush().await.map_err(file_error("write"))?;
    drop(file);
    tokio::fs::rename(&partial, archive).await.map_err(file_error("rename"))
}

/// What the builder is told beside the context.
#[derive(Debug)]
pub(crate) struct BuildRequest<'a> {
    pub(crate) reference: &'a str,
    /// For progress lines.
    pub(crate) subject: &'a str,
    pub(crate) arguments: HashMap<String, String>,
    pub(crate) labels: HashMap<String, String>,
}

/// Builds an image from a context archive with the engine's classic builder, which every engine has. Returns
/// the images of the stages below the last one that this build made rather than found.
pub(crate) async fn build(
    docker: &Docker,
    context: &Path,
    request: BuildRequest<'_>,
    reporter: Reporter<'_>,
) -> Result<Vec<String>, ImageError> {
    let options = BuildImageOptionsBuilder::new()
        .t(request.reference)
        .rm(true)
        .forcerm(true)
        // Package mirrors may be reachable for the host only.
        .networkmode("host")
        .buildargs(&request.arguments)
        .labels(&request.labels)
        .build();
    let body = body_try_stream(read(context).await?);
    let engine = docker.clone().with_timeout(PATIENCE);
    let mut answers = engine.build_image(options, None, Some(body));
    let mut step = "send context".to_owned();
    let mut tail = Tail::default();
    let mut stages = Stages::default();
    while let Some(answer) = answers.next().await {
        let answer = answer.map_err(|source| ImageError::Build {
            reference: request.reference.to_owned(),
            step: step.clone(),
            log: tail.text(),
            source: Box::new(source),
        })?;
        let Some(line) = answer.stream else { continue };
        if line.starts_with("Step ") {
            // Long RUN lines say no more after their first words.
            step = line.trim().chars().take(72).collect();
            reporter.step(request.subject, step.clone());
        }
        stages.follow(&line);
        tail.push(&line);
    }
    Ok(stages.made)
}

/// Reads from a builder's output which images are the ends of stages.
#[derive(Debug, Default)]
struct Stages {
    made: Vec<String>,
    /// The image after the step at hand, if that step made it.
    last: Option<String>,
    /// Whether the step at hand has nothing to make.
    found: bool,
}

impl Stages {
    fn follow(&mut self, line: &str) {
        let line = line.trim();
        if line.starts_with("Step ") {
            self.found = line.contains(" : FROM ");
            if self.found {
                self.made.extend(self.last.take());
            }
        } else if line == "---> Using cache" {
            self.found = true;
        } else if let Some(id) = line.strip_prefix("---> ")
            && !id.is_empty()
            && id.bytes().all(|byte| byte.is_ascii_hexdigit())
        {
            self.last = (!self.found).then(|| id.to_owned());
        }
    }
}

/// Removes an image that has no name, with its unnamed parents. What is in use stays.
pub(crate) async fn remove(docker: &Docker, id: &str) -> Result<(), ImageError> {
    let named = |image: ImageInspect| image.repo_tags.is_some_and(|tags| !tags.is_empty());
    if inspect(docker, id).await?.is_none_or(named) {
        return Ok(());
    }
    match docker.remove_image(id, None::<RemoveImageOptions>, None).await {
        Ok(_) | Err(EngineError::DockerResponseServerError { status_code: 404 | 409, .. }) => Ok(()),
        Err(source) => Err(ImageError::Engine { what: "the removal of replaced images".to_owned(), source }),
    }
}

/// Removes untagged images of some age that carry a label: replaced images and build stages.
pub(crate) async fn prune(docker: &Docker, label: &str, age: Duration) -> Result<(), ImageError> {
    let filters = HashMap::from([
        ("dangling", vec!["true".to_owned()]),
        ("label", vec![label.to_owned()]),
        ("until", vec![format!("{}s", age.as_secs())]),
    ]);
    let options = PruneImagesOptionsBuilder::new().filters(&filters).build();
    let pruned = docker.prune_images(Some(options)).await;
    pruned
        .map(|_| ())
        .map_err(|source| ImageError::Engine { what: "the removal of replaced images".to_owned(), source })
}

async fn read(
    path: &Path,
) -> Result<impl Stream<Item = std::io::Result<Bytes>> + Send + 'static, ImageError> {
    let file = File::open(path).await.map_err(ImageError::file("open", path))?;
    Ok(pieces::of(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_that_were_made_are_told_from_those_that_were_found() {
        let output = "Step 1/9 : FROM base AS found\n ---> 0123456789ab\nStep 2/9 : RUN one\n \
            ---> Using cache\n ---> 1123456789ab\nStep 3/9 : FROM base AS made\n ---> 0123456789ab\n\
            Step 4/9 : RUN two\n ---> Running in ffffffffffff\n---> not an image\n ---> 2123456789ab\n\
            Step 5/9 : COPY three\n ---> 3123456789ab\nStep 6/9 : FROM scratch\n ---> \nStep 7/9 : COPY four\n \
            ---> 4123456789ab\nSuccessfully built 4123456789ab\n";
        let mut stages = Stages::default();
        output.lines().for_each(|line| stages.follow(line));
        assert_eq!(stages.made, ["3123456789ab"]);
    }

    #[test]
    fn a_port_is_no_tag() {
        assert_eq!(split("localhost/hoist/base:trixie"), ("localhost/hoist/base", "trixie"));
        assert_eq!(split("registry.example:5000/name"), ("registry.example:5000/name", "latest"));
    }
}
