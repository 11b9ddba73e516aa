//! What a node's containerd must hold before its pods start: the images of hoist's addons, which no registry
//! serves. hoist's own node images have them; an image of the user's need not.

use crate::engine::PhaseError;
use crate::phases::containers::node_name;
use crate::phases::{Context, PhaseId, images, machines};
use crate::spec::NodeSpec;

/// Prints the names of images in the namespace that the kubelet's containers come from.
const LIST: [&str; 6] = ["ctr", "--namespace", "k8s.io", "images", "list", "--quiet"];

#[derive(Debug, thiserror::Error)]
enum PreloadError {
    #[error("{node}: can't ask its containerd for its images (exit code {code}): {output}")]
    List { node: String, code: i64, output: String },
    #[error("{node}: its containerd refuses {image} (exit code {code}): {output}")]
    Refused { node: String, image: String, code: i64, output: String },
}

/// Puts those addon images that a node lacks into its containerd.
pub(super) async fn run(cx: &Context, node: &NodeSpec) -> Result<(), PhaseError> {
    let (runtime, name) = (cx.ports.runtime.as_ref(), node.name());
    let present = machines::exec(runtime, &cx.spec.name, node, &LIST, &[]).await?;
    if present.code != 0 {
        let (code, output) = (present.code, present.stderr);
        return Err(PreloadError::List { node: name, code, output }.into());
    }
    let container = node_name(&cx.spec.name, &name);
    let import = machines::on_node(node, &machines::IMPORT);
    for image in images::addons(&cx.spec) {
        if present.stdout.lines().any(|line| line.trim() == image) {
            continue;
        }
        let output = runtime.feed_image(&container, &import, &image).await?;
        if output.code != 0 {
            let (code, output) = (output.code, output.stderr);
            return Err(PreloadError::Refused { node: name, image, code, output }.into());
        }
        cx.events.step(PhaseId::Nodes, format!("{name} was given {image}"));
    }
    Ok(())
}
