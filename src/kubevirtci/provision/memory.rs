use super::Step;
use crate::kubevirtci::args::RunArgs;
use crate::kubevirtci::guest::quote;

pub(super) fn no_swap() -> Step {
    Step::new("turn swap off", "swapoff -a")
}

/// Kernel same-page merging.
pub(super) fn ksm(pages: u32, sleep_millis: u32) -> Step {
    Step::new(
        "turn KSM on",
        format!(
            "cd /sys/kernel/mm/ksm\necho 1 >run\necho {sleep_millis} >sleep_millisecs\necho {pages} >pages_to_scan"
        ),
    )
}

pub(super) fn swap(args: &RunArgs) -> Vec<Step> {
    let mut steps = Vec::new();
    if args.swap_size > 0 {
        let size = args.swap_size;
        // What comes next turns on what fstab lists.
        let script = format!(
            "fallocate -l {size}G /swapfile\nchmod 0600 /swapfile\nmkswap /swapfile\n\
             grep -q '^/swapfile ' /etc/fstab || echo '/swapfile none swap defaults 0 0' >>/etc/fstab"
        );
        steps.push(Step::new("make a swap file", script));
    }
    steps.push(Step::new("turn swap on", "swapon -a"));
    if args.swapiness > 0 {
        let swappiness = args.swapiness;
        let script = format!(
            "echo 'vm.swappiness = {swappiness}' >>/etc/sysctl.conf\nsysctl vm.swappiness={swappiness}"
        );
        steps.push(Step::new("set the swappiness", script));
    }
    if !args.swap_behavior.is_empty() {
        steps.push(behavior(&args.swap_behavior));
    }
    steps
}

/// Written by kubeadm or not, the setting ends up in the kubelet's configuration once.
fn behavior(behavior: &str) -> Step {
    let behavior = quote(behavior);
    let script = format!(
        "config=/var/lib/kubelet/config.yaml\n\
         sed -i '/^memorySwap:/,/^[^ ]/{{/^memorySwap:/d;/^ /d}}' $config\n\
         printf 'memorySwap:\\n  swapBehavior: %s\\n' {behavior} >>$config\n\
         systemctl restart kubelet"
    );
    Step::new("let the kubelet use swap", script)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't go on must fail loudly")]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_setting_of_swap_gives_way() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        let before = "kind: KubeletConfiguration\nmemorySwap:\n  swapBehavior: NoSwap\nport: 10250\n";
        #[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
        std::fs::write(&path, before).unwrap();
        let script = behavior("LimitedSwap")
            .script
            .replace("/var/lib/kubelet/config.yaml", &path.display().to_string());
        let script = script.replace("systemctl restart kubelet", "true");
        assert!(std::process::Command::new("bash").args(["-euc", &script]).status().unwrap().success());
        let after = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            after,
            "kind: KubeletConfiguration\nport: 10250\nmemorySwap:\n  swapBehavior: LimitedSwap\n"
        );
    }
}
