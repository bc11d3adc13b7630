use serde_json::json;

use super::*;

/// What Cluster API's kubeadm bootstrap provider writes for the first machine of a control plane, with most files left out.
const INIT: &str = r#"## template: jinja
#cloud-config

write_files:
-   path: /etc/kubernetes/pki/ca.crt
    owner: root:root
    permissions: '0640'
    content: |
      -----BEGIN CERTIFICATE-----

-   path: /run/kubeadm/kubeadm.yaml
    owner: root:root
    permissions: '0640'
    content: |
      ---
      apiVersion: kubeadm.k8s.io/v1beta4
      clusterName: demo
      dns:
        imageRepository: mirror.example/dns
        imageTag: v1.12.0
      etcd:
        local:
          imageRepository: mirror.example/etcd
          imageTag: 3.6.5-0
      imageRepository: mirror.example
      kind: ClusterConfiguration
      networking: {}

      ---
      apiVersion: kubeadm.k8s.io/v1beta4
      kind: InitConfiguration
      localAPIEndpoint: {}
      nodeRegistration:
        imagePullPolicy: IfNotPresent
        kubeletExtraArgs:
        - name: node-labels
          value: pool=gpu,node-role.kubernetes.io/worker=,node.kubernetes.io/tier=one
        - name: v
          value: "2"
        name: '{{ ds.meta_data.local_hostname }}'
        taints: []
      skipPhases:
      - addon/kube-proxy

runcmd:
  - 'kubeadm init --config /run/kubeadm/kubeadm.yaml'
"#;

fn of_init() -> Kubeadm {
    Kubeadm {
        node_labels: pairs(&[("node.kubernetes.io/tier", "one"), ("pool", "gpu")]),
        taints: Some(vec![]),
        cluster: Some(KubeadmCluster {
            image_repository: "mirror.example".into(),
            dns_image_repository: "mirror.example/dns".into(),
            dns_image_tag: "v1.12.0".into(),
            etcd_image_repository: "mirror.example/etcd".into(),
            etcd_image_tag: "3.6.5-0".into(),
            skips_proxy: true,
            ..KubeadmCluster::default()
        }),
    }
}

fn pairs(pairs: &[(&str, &str)]) -> std::collections::BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).into(), (*value).into()))
        .collect()
}

fn taint(key: &str, value: &str, effect: &str) -> Taint {
    Taint {
        key: key.into(),
        value: value.into(),
        effect: effect.into(),
    }
}

/// The user data of a worker whose configuration ends with this.
fn join(registration: &str) -> String {
    let indented = registration.replace('\n', "\n      ");
    format!(
        "#cloud-config\nwrite_files:\n-   path: /run/kubeadm/kubeadm-join-config.yaml\n    content: |\n      ---\n      \
         apiVersion: kubeadm.k8s.io/v1beta4\n      kind: JoinConfiguration\n      nodeRegistration:\n        {indented}\n"
    )
}

#[test]
fn the_configuration_of_kubeadm_is_read_as_kubeadm_reads_it() {
    assert_eq!(read(INIT.as_bytes()), Some(of_init()));
    let external = INIT.replace("local:", "external:").replace(
        "imageRepository: mirror.example/etcd",
        "endpoints: [https://a:2379]",
    );
    let cluster = read(external.as_bytes())
        .and_then(|found| found.cluster)
        .expect("it is there");
    assert_eq!(cluster.external_etcd, ["https://a:2379"]);
    let all = read(INIT.replace("addon/kube-proxy", "addon").as_bytes()).and_then(|found| found.cluster);
    assert!(all.is_some_and(|cluster| cluster.skips_proxy && cluster.skips_dns));
    for (registration, expected) in [
        ("{}", Kubeadm::default()),
        (
            "taints: [{key: gpu, value: a, effect: NoSchedule}, {key: x, effect: Never}, {key: '', effect: NoExecute}]",
            Kubeadm {
                taints: Some(vec![taint("gpu", "a", "NoSchedule")]),
                ..Kubeadm::default()
            },
        ),
        (
            // An object, as in v1beta3. What the kubelet is told comes before what kubeadm would tell it.
            "kubeletExtraArgs: {register-with-taints: 'a=b:NoExecute,c:NoSchedule', node-labels: 'x'}\n  taints: []",
            Kubeadm {
                node_labels: pairs(&[("x", "")]),
                taints: Some(vec![taint("a", "b", "NoExecute"), taint("c", "", "NoSchedule")]),
                cluster: None,
            },
        ),
        (
            "kubeletExtraArgs: [{name: node-labels, value: a=1}, {name: node-labels, value: b=2}]",
            Kubeadm {
                node_labels: pairs(&[("b", "2")]),
                ..Kubeadm::default()
            },
        ),
    ] {
        assert_eq!(
            read(join(registration).as_bytes()),
            Some(expected),
            "{registration}"
        );
    }
}

#[test]
fn each_form_of_user_data_has_the_same_configuration() {
    use base64::engine::general_purpose::STANDARD;
    let value = nephele_yaml::read_one(INIT, &BOUNDS).expect("it is YAML");
    let content = value["write_files"][1]["content"].as_str().expect("a text");
    let packed = STANDARD.encode(content);
    let escaped: String = content.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let ignition = |source: String, compression: &str| {
        let contents = json!({ "source": source, "compression": compression });
        let files = json!([{ "path": "/etc/motd" }, { "path": "/etc/kubeadm.yml", "contents": contents }]);
        json!({ "ignition": { "version": "2.3.0" }, "storage": { "files": files } }).to_string()
    };
    let encoded = json!({ "write_files": [
        { "path": "/run/kubeadm/kubeadm.yaml", "encoding": "b64", "content": packed },
    ] });
    for data in [
        format!("#cloud-config\n{}", nephele_yaml::write(&encoded)),
        ignition(format!("data:,{escaped}"), ""),
        ignition(format!("data:text/plain;charset=utf-8;base64,{packed}"), ""),
    ] {
        assert_eq!(read(data.as_bytes()), Some(of_init()), "{data}");
    }
    for data in [
        ignition(format!("data:,{escaped}"), "gzip"),
        ignition("https://example.com".into(), ""),
        ignition("data:,%zz".into(), ""),
        INIT.replace("kubeadm.k8s.io", "k3s.example"),
        INIT.replace("/run/kubeadm/kubeadm.yaml", "/etc/rancher/config.yaml"),
        "#!/bin/sh\nkubeadm init\n".into(),
        "Content-Type: multipart/mixed; boundary=\"b\"\n\n--b\n".into(),
        "[".repeat(100_000),
        String::new(),
    ] {
        assert_eq!(read(data.as_bytes()), None, "{data:.200}");
    }
    assert_eq!(read(&[0xff]), None);
}

#[test]
fn what_is_kept_is_bounded() {
    let many: Vec<String> = (0..1000)
        .map(|n| format!("{}.{n:03}/{}={}", "a".repeat(249), "b".repeat(63), "c".repeat(63)))
        .collect();
    let text = format!("kubeletExtraArgs: {{node-labels: '{}'}}", many.join(","));
    let found = read(join(&text).as_bytes()).expect("it is there");
    assert_eq!(found.node_labels.len(), 64);
    let long = INIT.replace("imageTag: v1.12.0", &format!("imageTag: {}", "x".repeat(600)));
    let cluster = read(long.as_bytes())
        .and_then(|found| found.cluster)
        .expect("it is there");
    assert_eq!(cluster.dns_image_tag, "");
}

#[test]
fn ignition_that_takes_too_much_memory_is_not_parsed() {
    let contents = json!({ "source": format!("data:,{}", INIT.replace('\n', "%0A")) });
    let ignition = |filled: usize| {
        let file = json!({ "path": "/etc/kubeadm.yml", "contents": contents });
        let filling = vec![json!({ "": 0 }); filled];
        json!({ "storage": { "files": [file] }, "filling": filling }).to_string()
    };
    let usual = ignition(100);
    let dense = ignition(100_000);
    assert!(dense.len() < MAX);
    let is_parsed = |text: &str| of_ignition(text).is_some();
    assert_eq!((is_parsed(&usual), is_parsed(&dense)), (true, false));
}

#[test]
fn no_user_data_take_longer_than_their_length_allows() {
    nephele_growth::assert_linear(
        "user data",
        32 * 1024,
        &["", INIT, "{\"storage\":{\"files\":["],
        |text| {
            let _ = read(text.as_bytes());
            let _ = percent_decode(text);
        },
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn long_user_data_are_read_up_to_the_size_of_a_secret() {
    let long = |bytes: usize| format!("{INIT}# {}", "x".repeat(bytes)).into_bytes();
    assert_eq!(read_user_data(long(MAX / 2)).await, Some(of_init()));
    assert_eq!(read_user_data(long(MAX)).await, None);
}
