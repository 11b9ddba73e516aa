//! Which data a cluster has: the UID of its Namespace kube-system, which lives as long as the data.
//!
//! An API server makes that namespace by itself in an empty etcd, with another UID: what the last `up`
//! noted tells a cluster from an empty one in its place.

use hoist_phases::ports::{KubeApi, KubeError, Store, StoreError};
use serde_json::Value;

/// File of the state directory.
const RECORD: &str = "cluster-uid";

const NAMESPACE: &str = "/api/v1/namespaces/kube-system";

/// What `status` and `up` say of it.
pub const LOST: &str = "data lost: etcd kept all objects in memory, which went when its containers ended; `hoist up` makes the cluster anew";

/// What the last `up` noted; `None` before the first has ended.
///
/// # Errors
/// When the state directory can't be read.
pub fn noted(store: &dyn Store) -> Result<Option<String>, StoreError> {
    Ok(store.read(RECORD)?.map(|noted| String::from_utf8_lossy(&noted).into_owned()))
}

/// Notes a UID.
///
/// # Errors
/// When the state directory can't be written.
pub fn note(store: &dyn Store, uid: &str) -> Result<(), StoreError> {
    store.write(RECORD, uid.as_bytes())
}

/// The UID of the data that is there; `None` in the first moment of an empty cluster.
///
/// # Errors
/// When the API doesn't tell.
pub async fn present(api: &dyn KubeApi) -> Result<Option<String>, KubeError> {
    let (code, body) = api.get_path(NAMESPACE).await?;
    match code {
        200 => Ok(uid(&body)),
        404 => Ok(None),
        code => Err(KubeError::Status {
            operation: "get",
            object: "Namespace kube-system".to_owned(),
            code,
            message: body,
        }),
    }
}

/// Whether the API has other data than was noted; an API that doesn't tell is no proof.
pub async fn is_another(api: &dyn KubeApi, noted: &str) -> bool {
    match api.get_path(NAMESPACE).await {
        Ok((200, body)) => uid(&body).is_some_and(|uid| uid != noted),
        Ok((404, _)) => true,
        _ => false,
    }
}

fn uid(body: &str) -> Option<String> {
    let namespace: Value = serde_json::from_str(body).ok()?;
    Some(namespace.pointer("/metadata/uid")?.as_str()?.to_owned())
}
