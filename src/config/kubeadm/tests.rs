use super::*;

const V4: &str = "
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens:
- {token: abcdef.1234567890123456, ttl: 24h0m0s, usages: [signing], groups: [g]}
localAPIEndpoint: {advertiseAddress: 10.0.0.1, bindPort: 7443}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
certificatesDir: /etc/kubernetes/pki
networking: {podSubnet: 10.1.0.0/16, serviceSubnet: 10.2.0.0/16, dnsDomain: a.example}
apiServer:
  certSANs: [api.example]
  extraArgs:
  - {name: v, value: '2'}
  - {name: v, value: '3'}
  - {name: audit-policy-file, value: /etc/audit.yaml}
  - {name: enable-admission-plugins, value: 'NodeRestriction,ResourceQuota'}
  extraVolumes: [{name: audit, hostPath: /etc}]
controllerManager: {extraArgs: [{name: node-cidr-mask-size-ipv4, value: '20'}]}
proxy: {disabled: true}
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
maxPods: 50
clusterDNS: [10.96.0.10]
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
conntrack: {maxPerCore: 0}
";

#[test]
fn what_means_something_is_carried_over_and_the_rest_named() -> Result<(), KubeadmError> {
    let Carried { fields, unused } = carry(Path::new("k.yaml"), V4)?;
    let wanted = json!({
        "kubernetes": "v1.36.3",
        "token": "abcdef.1234567890123456",
        "tokenTtl": "24h0m0s",
        "extraSans": ["api.example"],
        "networking": {
            "podSubnet": "10.1.0.0/16", "serviceSubnet": "10.2.0.0/16", "dnsDomain": "a.example",
            "nodeMaskSizeIpv4": 20,
        },
        "apiServer": { "port": 7443, "admissionPlugins": ["NodeRestriction", "ResourceQuota"] },
        "components": { "kube-apiserver": { "extraArgs": { "v": "2\n3" } } },
        "skipPhases": ["kube-proxy"],
        "kubelet": { "config": { "maxPods": 50 } },
        "kubeProxy": { "mode": "iptables", "config": { "conntrack": { "maxPerCore": 0 } } },
    });
    assert_eq!(fields, wanted);
    assert_eq!(
        unused,
        [
            "InitConfiguration.localAPIEndpoint.advertiseAddress",
            "ClusterConfiguration.apiServer.extraArgs.audit-policy-file",
            "ClusterConfiguration.apiServer.extraVolumes",
            "ClusterConfiguration.certificatesDir",
            "KubeletConfiguration.clusterDNS",
        ]
    );
    let line = told("k.yaml", "ClusterConfiguration.certificatesDir");
    assert!(
        line.starts_with("k.yaml: ClusterConfiguration.certificatesDir has no meaning here: keys"),
        "{line}"
    );
    Ok(())
}

#[test]
fn v1beta3_has_its_arguments_in_a_mapping() -> Result<(), KubeadmError> {
    let text =
        "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\nscheduler: {extraArgs: {v: 4}}\n";
    let fields = carry(Path::new("k.yaml"), text)?.fields;
    assert_eq!(fields, json!({"components": {"kube-scheduler": {"extraArgs": {"v": "4"}}}}));
    Ok(())
}

/// What kubeadm 1.37 reads.
#[test]
fn v1_is_read_as_v1beta4_is() -> Result<(), KubeadmError> {
    let of = |text: &str| carry(Path::new("k.yaml"), text).map(|carried| (carried.fields, carried.unused));
    assert_eq!(of(&V4.replace("kubeadm.k8s.io/v1beta4", "kubeadm.k8s.io/v1"))?, of(V4)?);
    Ok(())
}

#[test]
fn what_is_none_of_kubeadms_is_refused() {
    let error = |text: &str| {
        carry(Path::new("k.yaml"), text).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(error("kind: Pod\n").contains("holds no document of kubeadm's"));
    let old = "apiVersion: kubeadm.k8s.io/v1beta2\nkind: ClusterConfiguration\n";
    assert!(error(old).contains("v1beta2"), "{}", error(old));
    assert!(error("a: [").starts_with("kubeadmConfig \"k.yaml\": line "), "{}", error("a: ["));
}

#[test]
fn nothing_of_a_document_vanishes_without_a_word() {
    let text = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n";
    let carried = carry(Path::new("k.yaml"), &format!("{text}networkin: {{}}\ndns: {{}}\nscheduler: {{}}\n"));
    assert!(carried.is_ok_and(|carried| carried.unused == ["ClusterConfiguration.networkin"]));
    let twice = carry(Path::new("k.yaml"), &format!("{text}---\n{text}"));
    assert!(matches!(twice, Err(KubeadmError::Twice { kind, .. }) if kind == "ClusterConfiguration"));
}
