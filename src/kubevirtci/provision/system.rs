use std::time::Duration;

use super::{Step, wait_for};
use crate::kubevirtci::guest::quote;

/// Between two looks at a machine that starts again.
pub(super) const POLL: Duration = Duration::from_millis(50);

/// Tools of the tests log in as root with the key of the image's user.
pub(super) fn root_key() -> Step {
    Step::new(
        "let root log in",
        "install -d -m 0700 /root/.ssh\n\
         install -m 0600 \"/home/$SUDO_USER/.ssh/authorized_keys\" /root/.ssh/authorized_keys",
    )
}

/// Images come through a caching proxy, whose authority the node then trusts.
pub(super) fn docker_proxy(proxy: &str) -> Option<Step> {
    const DIRECT: &str = "localhost,127.0.0.1,registry,10.96.0.0/12,10.244.0.0/16,192.168.0.0/16,\
                          fd10:96::/108,fd10:244::/56,fd00:10:96::/112,fd00:10:244::/112,fd00::/64";
    if proxy.is_empty() {
        return None;
    }
    let certificate = quote(&format!("{proxy}/ca.crt"));
    let unit = quote(&format!(
        "[Service]\nEnvironment=\"HTTP_PROXY={proxy}\"\nEnvironment=\"HTTPS_PROXY={proxy}\"\nEnvironment=\"NO_PROXY={DIRECT}\"\n"
    ));
    Some(Step::new(
        "set the proxy for images",
        format!(
            "curl -sS {certificate} -o /etc/pki/ca-trust/source/anchors/docker_registry_proxy.crt\n\
             update-ca-trust\n\
             mkdir -p /etc/systemd/system/crio.service.d\n\
             printf %s {unit} >/etc/systemd/system/crio.service.d/override.conf\n\
             systemctl daemon-reload\n\
             systemctl restart crio.service"
        ),
    ))
}

/// Realtime processes may take all of a processor's time.
pub(super) fn realtime() -> Step {
    Step::new(
        "let realtime processes run without a limit",
        "echo kernel.sched_rt_runtime_us=-1 >/etc/sysctl.d/realtime.conf\nsysctl --system",
    )
}

pub(super) fn runtime_is_up() -> Step {
    Step::new("wait for the container runtime", wait_for("systemctl is-active --quiet crio", 60))
}

/// Where ceph keeps its data on a node; containers may write there.
pub(super) fn rook_directory() -> Step {
    Step::new("make rook's directory", "mkdir -p /var/lib/rook\nchcon -t container_file_t /var/lib/rook")
}
