//! Images of the engine, or of archives, into the nodes' containerd.

use std::path::{Path, PathBuf};

use futures_util::TryStreamExt;
use hoist_phases::phases::containers::node_name;
use hoist_phases::phases::machines;
use hoist_phases::ports::{ExecOutput, Runtime, RuntimeError};
use hoist_phases::spec::{ClusterSpec, NodeSpec};
use tokio::io::AsyncReadExt;

use crate::runtime::Engine;

/// Bytes read from an archive at a time.
const CHUNK: usize = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("images neither in the engine's store nor files: {}", .0.join(", "))]
    Missing(Vec<String>),
    #[error("archive {}", .path.display())]
    Archive {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("{node}: containerd refuses {image}: {output}")]
    Refused { node: String, image: String, output: String },
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

/// Puts `images` (references of the engine's store, or paths of archives) into every node of the
/// cluster. All are looked for before any is loaded.
///
/// # Errors
/// Names every image that isn't there, or the first node whose containerd refuses one.
pub async fn load(engine: &Engine, cluster: &ClusterSpec, images: &[String]) -> Result<(), LoadError> {
    let nodes = &cluster.nodes;
    let imports: Vec<_> = nodes
        .iter()
        .map(|node| (node_name(&cluster.name, &node.name()), machines::on_node(node, &machines::IMPORT)))
        .collect();
    let (archives, references): (Vec<_>, Vec<_>) =
        images.iter().cloned().partition(|image| Path::new(image).is_file());
    let missing = engine.missing_images(&references).await?;
    if !missing.is_empty() {
        return Err(LoadError::Missing(missing));
    }
    for reference in &references {
        let stream = engine.docker().export_image(reference);
        let outputs = engine.feed_all(&imports, Box::pin(stream)).await?;
        check(nodes, reference, outputs)?;
    }
    for archive in &archives {
        let path = PathBuf::from(archive);
        let unreadable = |source| LoadError::Archive { path: path.clone(), source };
        let file = tokio::fs::File::open(&path).await.map_err(unreadable)?;
        let outputs = engine.feed_all(&imports, Box::pin(chunks(file))).await?;
        check(nodes, archive, outputs)?;
    }
    Ok(())
}

fn chunks(
    file: tokio::fs::File,
) -> impl futures_util::Stream<Item = Result<Vec<u8>, bollard::errors::Error>> {
    futures_util::stream::try_unfold(file, |mut file| async move {
        let mut chunk = vec![0; CHUNK];
        let read = file.read(&mut chunk).await?;
        chunk.truncate(read);
        Ok::<_, std::io::Error>((read > 0).then_some((chunk, file)))
    })
    .map_err(bollard::errors::Error::from)
}

fn check(nodes: &[NodeSpec], image: &str, outputs: Vec<ExecOutput>) -> Result<(), LoadError> {
    match nodes.iter().zip(outputs).find(|(_, output)| output.code != 0) {
        Some((node, output)) => Err(LoadError::Refused {
            node: node.name(),
            image: image.to_owned(),
            output: output.stderr.trim().to_owned(),
        }),
        None => Ok(()),
    }
}
