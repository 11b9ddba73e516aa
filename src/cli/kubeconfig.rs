//! `hoist kubeconfig`.

use super::args::{Global, KubeconfigArgs};
use super::session::Session;
use crate::error::BoxError;
use crate::{kubeconfig, report};

pub(super) fn run(global: &Global, args: &KubeconfigArgs) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    let KubeconfigArgs { write, merge, unmerge, switch } = args;
    if *unmerge {
        let there = kubeconfig::unmerge_if_merged(&session.state, &session.name)?;
        report::tell(if there {
            "took the cluster out of your kubeconfig"
        } else {
            "nothing of this cluster was merged"
        });
        return Ok(());
    }
    let admin = session.kubeconfig()?;
    if let Some(path) = write {
        kubeconfig::write_copy(&session.state, path, &admin)?;
        report::tell(format_args!("wrote {}", path.display()));
    } else if *merge {
        let path = kubeconfig::merge(&session.state, &session.name, &admin, *switch)?;
        let context = kubeconfig::entry_name(&session.name);
        report::tell(format_args!("merged context {context} into {}", path.display()));
    } else {
        report::data(admin)?;
    }
    Ok(())
}
