//! Inputs that the parsers accept. What is drawn from nothing would seldom get past their first bytes.

use std::iter;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use rustls_pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::Value;

use crate::{hooks, server::server};

/// Texts, each after the numbers that choose what it is for.
fn texts<const N: usize>(texts: &[([u8; N], &str)]) -> Vec<Vec<u8>> {
    texts
        .iter()
        .map(|(numbers, text)| [numbers, text.as_bytes()].concat())
        .collect()
}

pub(crate) fn patch() -> Vec<Vec<u8>> {
    texts(&[
        (
            [0, 0],
            r#"[{"op":"add","path":"/data/a~1b","value":"1"},{"op":"test","path":"/data/k","value":"v"}]"#,
        ),
        (
            [0, 2],
            r#"[{"op":"copy","from":"/spec/parts/0","path":"/spec/parts/-"},{"op":"remove","path":"/spec/tags/0"}]"#,
        ),
        (
            [0, 1],
            r#"[{"op":"move","from":"/spec/template/spec/containers/0/env","path":"/spec/template/spec/containers/0/args"}]"#,
        ),
        (
            [0, 4],
            r#"[{"op":"replace","path":"/spec/taints/0/effect","value":"NoExecute"},{"op":"add","path":"/status","value":{}}]"#,
        ),
        (
            [1, 0],
            r#"{"data":{"k":null,"n":"1"},"metadata":{"labels":{"app":null},"annotations":{"a":"b"}}}"#,
        ),
        (
            [1, 2],
            r#"{"spec":{"size":7,"parts":[{"name":"p","count":2}],"tags":["a","b"]},"status":{"conditions":[{"type":"Ready"}]}}"#,
        ),
        (
            [1, 3],
            r#"{"metadata":{"finalizers":null,"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"a","uid":"1"}]}}"#,
        ),
        (
            [2, 1],
            r#"{"spec":{"template":{"spec":{"containers":[{"name":"c","$patch":"delete"},{"name":"d","image":"e"}],"$setElementOrder/containers":[{"name":"d"}]}}}}"#,
        ),
        (
            [2, 3],
            r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["x.io/held"],"$setElementOrder/finalizers":["b"]},"spec":{"$retainKeys":["nodeName"]}}"#,
        ),
        (
            [2, 4],
            r#"{"spec":{"taints":[{"$patch":"replace"},{"key":"u","effect":"NoSchedule"}]},"metadata":{"$patch":"merge"}}"#,
        ),
        (
            [3, 2],
            "apiVersion: x.io/v1\nkind: Thing\nspec:\n  size: 3\n  parts: [{name: p, count: 1}, {name: q}]\n  tags: [t, u]\n",
        ),
        (
            [3, 1],
            "apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: 2\n  template:\n    spec:\n      containers:\n      - name: c\n        image: j\n",
        ),
    ])
}

pub(crate) fn apply() -> Vec<Vec<u8>> {
    texts(&[
        (
            [2, 0],
            "{\"apiVersion\":\"x.io/v1\",\"kind\":\"Thing\",\"spec\":{\"size\":1,\"tags\":[\"a\"]}}\0{\"apiVersion\":\"x.io/v1\",\"kind\":\"Thing\",\"spec\":{\"size\":2,\"tags\":[\"a\",\"b\"]}}",
        ),
        (
            [2, 1],
            "apiVersion: x.io/v1\nkind: Thing\nspec:\n  parts:\n  - {name: p, count: 1}\n\0apiVersion: x.io/v1\nkind: Thing\nspec:\n  parts:\n  - {name: p}\n  - {name: q}\n",
        ),
        (
            [1, 1],
            "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"ports\":[{\"containerPort\":80}]}]}}}}\0{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"spec\":{\"replicas\":3}}",
        ),
        (
            [0, 0],
            "apiVersion: v1\nkind: ConfigMap\ndata: &d {a: b}\n\0apiVersion: v1\nkind: ConfigMap\nmetadata: {labels: {app: b}}\n",
        ),
        (
            [4, 1],
            "{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"spec\":{\"taints\":[{\"key\":\"t\",\"effect\":\"NoExecute\"}]}}\0{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"metadata\":{\"finalizers\":[\"a\"]}}",
        ),
    ])
}

pub(crate) fn selectors() -> Vec<Vec<u8>> {
    texts(&[
        (
            [0],
            "app=a,!b,c in (d, e),f notin (g),h\0metadata.name=a,metadata.namespace!=default",
        ),
        ([2], "app in (a,),x.io/y!=z\0spec.size=1"),
        ([3], "app==a\0spec.nodeName=a,status.phase!=Running"),
        ([4], "n>1,m<2\0spec.unschedulable=true,a\\,b=c\\=d"),
    ])
}

/// Bodies as Go's serializer writes them.
pub(crate) fn protobuf() -> Vec<Vec<u8>> {
    let fixtures = include_str!("../../../kube/apiserver/tests/fixtures/protobuf.json");
    let fixtures: Vec<Value> = serde_json::from_str(fixtures).expect("the fixtures are JSON");
    let kinds = server().store().resource_types();
    let sample = |fixture: &Value| {
        let body = BASE64
            .decode(fixture["body"].as_str()?)
            .expect("the body of a fixture is base64");
        let kind = fixture["object"]["kind"].as_str()?;
        let place = kinds.iter().position(|known| known.kind == kind)?;
        let place = u8::try_from(place).expect("there are fewer than 256 kinds");
        Some([&[place], &body[..]].concat())
    };
    fixtures.iter().filter_map(sample).collect()
}

/// One body for all kinds.
pub(crate) fn table() -> Vec<Vec<u8>> {
    const OBJECT: &str = r#"{"metadata":{"name":"b","creationTimestamp":"2025-01-01T00:00:00Z","deletionTimestamp":null},
        "spec":{"replicas":2,"containers":[{"name":"c","image":"i"}],"nodeName":"a","type":"LoadBalancer","ports":[{"port":80,"nodePort":30000,"protocol":"TCP"}],
        "schedule":"* * * * *","parallelism":1,"completions":3,"rules":[{"host":"h"}],"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],
        "minAvailable":"50%","scaleTargetRef":{"kind":"Deployment","name":"a"},"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"averageUtilization":80}}}]},
        "status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2025-01-01T00:00:00Z"}],"readyReplicas":1,
        "containerStatuses":[{"name":"c","ready":true,"restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"exitCode":1,"finishedAt":"2025-01-01T00:00:00Z"}}}],
        "loadBalancer":{"ingress":[{"ip":"1.2.3.4"}]},"startTime":"2025-01-01T00:00:00Z","completionTime":"2025-01-02T00:00:00Z","succeeded":1},
        "data":{"k":"v"},"type":"Opaque","subsets":[{"addresses":[{"ip":"1.1.1.1"}],"ports":[{"port":1}]}],"involvedObject":{"kind":"Pod","name":"a"},
        "reason":"r","message":"m","count":2,"firstTimestamp":"2025-01-01T00:00:00Z","lastTimestamp":"2025-01-01T00:00:01Z","webhooks":[{"name":"w"}],
        "roleRef":{"kind":"Role","name":"r"},"subjects":[{"kind":"User","name":"u"}],"value":5,"provisioner":"p"}"#;
    let kinds =
        u8::try_from(server().store().resource_types().len()).expect("there are fewer than 256 kinds");
    (0..kinds)
        .map(|kind| [&[kind], OBJECT.as_bytes()].concat())
        .collect()
}

pub(crate) fn request() -> Vec<Vec<u8>> {
    texts(&[
        ([0, 4], "/api/v1/namespaces/default/pods/a?pretty=true\0"),
        (
            [0, 4],
            "/apis/x.io/v1/things?limit=1&continue=abc&resourceVersion=0&resourceVersionMatch=NotOlderThan\0",
        ),
        (
            [0, 4],
            "/api/v1/pods?watch=1&timeoutSeconds=5&allowWatchBookmarks=true&resourceVersion=1\0",
        ),
        ([0, 4], "/api/v1/watch/namespaces/default/pods\0"),
        ([0, 4], "/openapi/v3/apis/apps/v1?hash=A%2fb\0"),
        (
            [1, 4],
            "/api/v1/namespaces/default/configmaps?dryRun=All&fieldValidation=Strict\0{\"metadata\":{\"generateName\":\"g-\"},\"data\":{\"a\":\"b\"}}",
        ),
        (
            [1, 4],
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews\0{\"spec\":{\"resourceAttributes\":{\"verb\":\"get\",\"resource\":\"pods\"}}}",
        ),
        (
            [1, 4],
            "/api/v1/namespaces/default/pods/a/eviction\0{\"apiVersion\":\"policy/v1\",\"kind\":\"Eviction\",\"metadata\":{\"name\":\"a\"}}",
        ),
        (
            [2, 4],
            "/apis/apps/v1/namespaces/default/deployments/a/scale\0{\"spec\":{\"replicas\":3},\"metadata\":{\"resourceVersion\":\"1\"}}",
        ),
        (
            [3, 1],
            "/api/v1/nodes/a/status?fieldManager=f\0{\"status\":{\"capacity\":{\"cpu\":\"1\"}}}",
        ),
        (
            [3, 3],
            "/apis/x.io/v1/namespaces/default/things/b?fieldManager=f&force=true\0{\"apiVersion\":\"x.io/v1\",\"kind\":\"Thing\"}",
        ),
        (
            [4, 4],
            "/api/v1/namespaces/default/configmaps?propagationPolicy=Foreground\0{\"preconditions\":{\"uid\":\"1\"},\"gracePeriodSeconds\":0}",
        ),
        (
            [4, 4],
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.x.io\0{}",
        ),
        (
            [1, 4],
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions\0{\"metadata\":{\"name\":\"as.b.io\"},\"spec\":{\"group\":\"b.io\",\"scope\":\"Cluster\",\"names\":{\"plural\":\"as\",\"kind\":\"A\"},\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\"}},\"additionalPrinterColumns\":[{\"name\":\"C\",\"type\":\"string\",\"jsonPath\":\".a[?(@.b==\\\"c\\\")].d\"}]}]}}",
        ),
    ])
}

pub(crate) fn headers() -> Vec<Vec<u8>> {
    texts(&[
        (
            [0, 0],
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;q=0.5, */*\0",
        ),
        (
            [0, 0],
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io\0\u{2}gzip;q=1.0, identity;q=0\0",
        ),
        (
            [1, 0],
            "application/vnd.kubernetes.protobuf;stream=watch,application/json\0",
        ),
        (
            [2, 0],
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\0",
        ),
        (
            [3, 0],
            "application/com.github.proto-openapi.spec.v2@v1.0+protobuf\0",
        ),
        (
            [4, 3],
            "system:serviceaccount:default:a\0\u{4}g\0\u{5}1\0\u{6}v\0\u{1}application/json; charset=utf-8\0",
        ),
    ])
}

/// A certificate of the user `u` in the groups `g` and `system:masters`.
pub(crate) fn certificate() -> Vec<Vec<u8>> {
    let pem = include_bytes!("certificate.pem");
    vec![
        CertificateDer::from_pem_slice(pem)
            .expect("the file is a certificate")
            .to_vec(),
    ]
}

/// Messages of each call, and what a client sends on a connection.
pub(crate) fn etcd() -> Vec<Vec<u8>> {
    let request = b"\0\0\x2f\x01\x04\0\0\0\x01\x83\x86\x41\x03etc\x04\x1f/etcdserverpb.Maintenance/Status\0\0\x05\0\x01\0\0\0\x01\0\0\0\0\0";
    vec![
        vec![0, 8, 1],
        vec![1, 8, 1],
        vec![2, 8, 0xd2, 9],
        vec![3, 8, 1, 16, 1, 24, 1],
        vec![4],
        vec![5, 10, 1, b'a', 18, 1, b'b'],
        [&[6], &request[..]].concat(),
        [
            &[6],
            &b"\0\0\x08\x06\0\0\0\0\0abcdefgh\0\0\x04\x08\0\0\0\0\0\0\0\0\x01"[..],
        ]
        .concat(),
    ]
}

/// A pair of streams to a port with data, directly and in frames of WebSocket, and other frames.
pub(crate) fn port_forward() -> Vec<Vec<u8>> {
    let opened = [
        stream(1, "error", "80"),
        stream(3, "data", "80"),
        spdy_data(3, 0, b"hello"),
        spdy_data(3, 1, b""),
    ];
    let opened = opened.concat();
    let refused = [
        stream(1, "error", "81"),
        stream(3, "data", "81"),
        spdy_data(3, 1, b"hello"),
    ]
    .concat();
    // Ping, settings, window update, reset and goaway (SPDY 3.1, section 2.6).
    let control =
        b"\x80\x03\0\x06\0\0\0\x04\0\0\0\x01\x80\x03\0\x04\0\0\0\x0c\0\0\0\x01\0\0\0\x07\0\0\xff\xff\
                    \x80\x03\0\x09\0\0\0\x08\0\0\0\x03\0\0\0\x10\x80\x03\0\x03\0\0\0\x08\0\0\0\x03\0\0\0\x05\
                    \x80\x03\0\x07\0\0\0\x08\0\0\0\x03\0\0\0\0";
    let with_control = [&opened[..], control].concat();
    // A ping and a closing frame of WebSocket.
    let frames = b"\x89\x82\0\0\0\0hi\x82\xfe\0\x03\0\0\0\0abc\x88\x82\0\0\0\0\x03\xe8";
    let handshake = b"GET /portforward?ports=80 HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, Upgrade\r\n\
                      upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                      sec-websocket-protocol: portforward.k8s.io, SPDY/3.1+portforward.k8s.io\r\n\r\n";
    [
        (0, &opened[..]),
        (0, &refused),
        (0, &with_control),
        (1, frames),
        (2, &opened),
        (2, &with_control),
        (3, handshake),
    ]
    .map(|(kind, bytes)| [&[kind], bytes].concat())
    .into()
}

/// A frame that opens a stream. Its headers are a block of zlib that is not compressed (RFC 1950 and 1951).
fn stream(id: u32, kind: &str, port: &str) -> Vec<u8> {
    let headers = [("streamtype", kind), ("port", port), ("requestid", "0")];
    let text = |text: &str| {
        [
            &u32::try_from(text.len())
                .expect("a header is short")
                .to_be_bytes(),
            text.as_bytes(),
        ]
        .concat()
    };
    let pairs = headers
        .iter()
        .flat_map(|(name, value)| [text(name), text(value)].concat());
    let block: Vec<u8> = 3_u32.to_be_bytes().into_iter().chain(pairs).collect();
    let length = u16::try_from(block.len()).expect("a block is short");
    let begin: &[u8] = if id == 1 { &[0x78, 0x01] } else { &[] };
    let compressed = [
        begin,
        &[0],
        &length.to_le_bytes(),
        &(!length).to_le_bytes(),
        &block,
    ]
    .concat();
    let payload = [&id.to_be_bytes()[..], &[0; 6], &compressed].concat();
    framed([0x80, 3, 0, 1], 0, &payload)
}

fn spdy_data(id: u32, flags: u8, bytes: &[u8]) -> Vec<u8> {
    framed(id.to_be_bytes(), flags, bytes)
}

fn framed(head: [u8; 4], flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len())
        .expect("a frame is short")
        .to_be_bytes();
    [&head[..], &[flags], &length[1..], payload].concat()
}

/// One body for all hooks.
pub(crate) fn hooks() -> Vec<Vec<u8>> {
    const BODY: &str = r#"{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"X","settings":{"a":"b"},
        "cluster":{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":{"name":"c","namespace":"default","uid":"1"},"spec":{"topology":{"classRef":{"name":"k"},"version":"v1.36.0"}}},
        "kubernetesVersion":"v1.36.1","fromKubernetesVersion":"v1.35.2","toKubernetesVersion":"v1.36.1","fromControlPlaneKubernetesVersion":"v1.34.0","fromWorkersKubernetesVersion":"v1.34.0",
        "variables":[{"name":"builtin","value":{"cluster":{"name":"c","namespace":"default"},"machineDeployment":{"class":"w","version":"v1.36.0"}}},{"name":"imageRepository","value":"r"}],
        "items":[{"uid":"1","holderReference":{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"MachineDeployment","name":"m","namespace":"default","fieldPath":"spec.template"},
          "object":{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"InMemoryMachineTemplate","metadata":{"name":"t"},"spec":{"template":{"spec":{}}}},"variables":[]}],
        "current":{"machine":{"metadata":{"name":"m","namespace":"default"},"spec":{"version":"v1.35.0"}},"infrastructureMachine":{"kind":"InMemoryMachine"},"bootstrapConfig":{},"machineSet":{"spec":{}}},
        "desired":{"machine":{"metadata":{"name":"m","namespace":"default"},"spec":{"version":"v1.36.0"}},"infrastructureMachine":{"kind":"InMemoryMachine"},"bootstrapConfig":{},"machineSet":{"spec":{}}}}"#;
    let hooks = u8::try_from(hooks::count()).expect("there are fewer than 256 hooks");
    (0..hooks)
        .map(|hook| [&[hook], BODY.as_bytes()].concat())
        .collect()
}

pub(crate) fn user_data() -> Vec<Vec<u8>> {
    const CONFIGURATION: &str = "kind: ClusterConfiguration\\ndns: {imageRepository: r, imageTag: t}\\netcd: {local: {imageRepository: r, imageTag: t}}\\n---\\nkind: InitConfiguration\\nskipPhases: [addon/kube-proxy]\\nnodeRegistration: {kubeletExtraArgs: [{name: node-labels, value: 'a=b,c='}], taints: [{key: k, value: v, effect: NoSchedule}]}\\n";
    let cloud_config = format!(
        "## template: jinja\n#cloud-config\nwrite_files:\n- path: /run/kubeadm/kubeadm.yaml\n  permissions: '0640'\n  content: \"{CONFIGURATION}\"\n- &a {{path: b, content: |\n  c}}\n"
    );
    let join = "write_files:\n-   path: /run/kubeadm/kubeadm-join-config.yaml\n    content: |\n      kind: JoinConfiguration\n      nodeRegistration:\n        kubeletExtraArgs: {node-labels: \"a=b\"}\n        taints: []\n";
    let encoded =
        "write_files: [{path: /etc/kubeadm.yml, encoding: b64, content: a2luZDogSm9pbkNvbmZpZ3VyYXRpb24K}]\n";
    let ignition = r#"{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/etc/kubeadm.yml","contents":{"source":"data:,kind%3A%20JoinConfiguration%0A"}}]}}"#;
    let packed = r#"{"storage":{"files":[{"path":"/etc/kubeadm.yml","contents":{"compression":"","source":"data:text/plain;base64,a2luZDogSm9pbkNvbmZpZ3VyYXRpb24K"}}]}}"#;
    iter::once(cloud_config.as_str())
        .chain([join, encoded, ignition, packed])
        .map(|text| text.as_bytes().to_vec())
        .collect()
}

pub(crate) fn kubeconfig() -> Vec<Vec<u8>> {
    const YAML: &str = "apiVersion: v1\nkind: Config\ncurrent-context: c\npreferences: {}\nclusters:\n- name: c\n  cluster: {server: 'https://127.0.0.1:6443', certificate-authority-data: YQ==, proxy-url: ''}\nusers:\n- name: u\n  user:\n    client-certificate: pki/a.crt\n    client-key-data: |\n      YQ==\n    exec: {apiVersion: client.authentication.k8s.io/v1, command: ./get, args: [a], env: [{name: A, value: b}], interactiveMode: Never}\n    tokenFile: t\ncontexts:\n- name: c\n  context: {cluster: c, user: u, namespace: n, extensions: [{name: e, extension: {a: 1}}]}\n";
    const JSON_TEXT: &str = r#"{"clusters":[{"name":"c","cluster":{"server":"s","insecure-skip-tls-verify":true}}],"users":null,"contexts":[{"name":"c","context":{"cluster":"c","user":""}}]}"#;
    [YAML, JSON_TEXT, "---\n---\nclusters: []\n"]
        .map(|text| text.as_bytes().to_vec())
        .into()
}

pub(crate) fn specs() -> Vec<Vec<u8>> {
    texts(&[
        (
            [0],
            r#"{"match":{"operations":["CreateInstance"],"zones":["a"],"machineSelector":{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"k","operator":"In","values":["v"]},{"key":"e","operator":"Exists"}]}},"effect":{"fail":{"reason":"InsufficientCapacity","retryAfter":"10s"}},"budget":{"probability":"0.5","skip":1,"count":2,"for":"10m"}}"#,
        ),
        (
            [0],
            r#"{"effect":{"apiServer":{"error":{"code":500,"probability":"0.1"}}},"budget":{"schedule":{"every":"1h","for":"5m","jitter":"0.2"}}}"#,
        ),
        ([0], r#"{"effect":{"lag":{"duration":"5s","jitter":"1"}}}"#),
        (
            [1],
            r#"{"steps":[{"name":"a","wait":{"for":"5s"}},{"expect":{"within":"1m","object":{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","name":"$(item)"}},"forEach":["x","y"]},{"parallel":[{"name":"b","steps":[{"heal":{"fault":"f"}}]}]}]}"#,
        ),
        (
            [1],
            r#"{"steps":[{"repeat":3,"steps":[{"scale":{"machineDeployment":"m","replicas":2}}]}]}"#,
        ),
        ([2], "1h30m0.5s"),
        ([2], "-9223372036854775808ns"),
        ([3], "0.123456"),
        ([4], "12.5"),
        ([5], "10.0.0.0/24,10.1.0.1-10.1.0.9,fd00::/120,::ffff:1.2.3.4"),
    ])
}
