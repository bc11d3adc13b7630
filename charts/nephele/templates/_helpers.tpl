{{/* Prefix of names of objects. */}}
{{- define "nephele.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Prefix of names of cluster-scoped objects: they start with the namespace, as those that clusterctl installs. */}}
{{- define "nephele.clusterwide" -}}
{{- $fullname := include "nephele.fullname" . -}}
{{- if eq $fullname "nephele" -}}
{{- .Release.Namespace -}}
{{- else -}}
{{- printf "%s-%s" .Release.Namespace $fullname -}}
{{- end -}}
{{- end -}}

{{/*
Name of a role or binding, from its `name` in config/, with `root` and `kind`. In config/, those of the IPAM provider have the
names of the in-cluster provider.
*/}}
{{- define "nephele.roleName" -}}
{{- if hasPrefix "Cluster" .kind -}}
{{- $short := .name | replace "capi-ipam-in-cluster-system-" "ipam-" | trimPrefix "nephele-system-" -}}
{{- printf "%s-%s" (include "nephele.clusterwide" .root) $short -}}
{{- else -}}
{{- $short := .name | replace "capi-ipam-in-cluster-" "ipam-" | trimPrefix "nephele-" -}}
{{- printf "%s-%s" (include "nephele.fullname" .root) $short -}}
{{- end -}}
{{- end -}}

{{/*
Splits rules into those about namespaced kinds (`inside`) and cluster-scoped ones (`without`), which are whole groups or have
names with `global`. IPAddresses are also read in all namespaces, because those of global pools can be in any.
*/}}
{{- define "nephele.splitRules" -}}
{{- $groups := list "admissionregistration.k8s.io" "apiextensions.k8s.io" "authentication.k8s.io" "authorization.k8s.io" -}}
{{- $inside := list -}}
{{- $without := list -}}
{{- range $rule := . -}}
{{- $here := list -}}
{{- $elsewhere := list -}}
{{- range $resource := $rule.resources -}}
{{- if or (hasPrefix "global" $resource) (hasPrefix "cloudextensionconfigs" $resource) (eq "namespaces" $resource) (has (first $rule.apiGroups) $groups) -}}
{{- $elsewhere = append $elsewhere $resource -}}
{{- else -}}
{{- $here = append $here $resource -}}
{{- end -}}
{{- if eq $resource "ipaddresses" -}}
{{- $without = append $without (merge (dict "resources" (list $resource) "verbs" (list "get" "list" "watch")) $rule) -}}
{{- end -}}
{{- end -}}
{{- if $here -}}
{{- $inside = append $inside (merge (dict "resources" $here) $rule) -}}
{{- end -}}
{{- if $elsewhere -}}
{{- $without = append $without (merge (dict "resources" $elsewhere) $rule) -}}
{{- end -}}
{{- end -}}
{{- dict "inside" $inside "without" $without | toYaml -}}
{{- end -}}

{{/* Rules without those for reviews of callers, which only diagnostics with authentication and the page need. */}}
{{- define "nephele.withoutReviews" -}}
{{- $kept := list -}}
{{- range . -}}
{{- $groups := default list .apiGroups -}}
{{- if not (or (has "authentication.k8s.io" $groups) (has "authorization.k8s.io" $groups)) -}}
{{- $kept = append $kept . -}}
{{- end -}}
{{- end -}}
{{- dict "rules" $kept | toYaml -}}
{{- end -}}

{{- define "nephele.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (printf "%s-manager" (include "nephele.fullname" .)) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Labels by which the Deployment and the Services select the manager's pods; they cannot change. */}}
{{- define "nephele.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
control-plane: controller-manager
{{- end -}}

{{/* Name of the runtime extension's Deployment and of its role and binding in a namespace. */}}
{{- define "nephele.extensionName" -}}
{{- printf "%s-runtime-extension" (include "nephele.fullname" .) -}}
{{- end -}}

{{/* Labels by which the Deployment and the Services select the extension's pods; they cannot change. */}}
{{- define "nephele.extensionSelector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: runtime-extension
{{- end -}}

{{/* The extension's account, which is not the manager's. */}}
{{- define "nephele.extensionAccount" -}}
{{- $account := .Values.runtimeExtension.serviceAccount -}}
{{- if $account.create -}}
{{- default (include "nephele.extensionName" .) $account.name -}}
{{- else -}}
{{- default "default" $account.name -}}
{{- end -}}
{{- end -}}

{{/* Permissions of the extension in the namespaces it serves: read and record answers in ConfigMaps, and request updates in place. */}}
{{- define "nephele.extensionRules" -}}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create, get, patch]
- apiGroups: [infrastructure.cluster.x-k8s.io]
  resources: [inmemorymachines]
  verbs: [get, patch]
{{- end -}}

{{/* Port of the hooks in the extension's pods. */}}
{{- define "nephele.extensionPort" -}}
9444
{{- end -}}

{{/* Where the authority of the extension's clients is mounted. */}}
{{- define "nephele.clientAuthorityFolder" -}}
/etc/nephele/client-authority
{{- end -}}

{{/* Flags of the extension, each with its value in one argument. Every replica answers, so none has to lead. */}}
{{- define "nephele.extensionArgs" -}}
- --roles=runtime-extension
- --runtime-extension-port={{ include "nephele.extensionPort" . }}
{{- if .Values.runtimeExtension.clientAuthority.secret }}
- --runtime-extension-client-ca-file={{ include "nephele.clientAuthorityFolder" . }}/ca.crt
{{- end }}
{{- with .Values.watch.namespace }}
- --namespace={{ . }}
{{- end }}
{{- if .Values.metrics.enabled }}
- --diagnostics-address=:{{ .Values.metrics.port | int }}
- --insecure-diagnostics={{ not .Values.metrics.authentication }}
{{- else }}
- --diagnostics-address=0
{{- end }}
{{- if ne (.Values.health.port | int) 9440 }}
- --health-addr=:{{ .Values.health.port | int }}
{{- end }}
- --logging-format={{ .Values.logging.format }}
- --v={{ .Values.logging.level | int }}
{{- range .Values.runtimeExtension.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Whether the manager has this role: `root`, `role`. Empty for no. */}}
{{- define "nephele.is" -}}
{{- if or (not .root.Values.roles) (has .role .root.Values.roles) -}}yes{{- end -}}
{{- end -}}

{{/* The provider of objects that all roles share, by clusterctl's name. */}}
{{- define "nephele.provider" -}}
{{- if include "nephele.is" (dict "root" . "role" "infrastructure") -}}infrastructure-in-memory{{- else -}}ipam-in-cluster{{- end -}}
{{- end -}}

{{/* Labels of every object; the provider is named as by clusterctl. */}}
{{- define "nephele.labels" -}}
{{- with .Values.commonLabels }}
{{- toYaml . }}
{{ end -}}
cluster.x-k8s.io/provider: {{ include "nephele.provider" . }}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: nephele
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end -}}

{{- define "nephele.image" -}}
{{- $image := .Values.image -}}
{{- $repository := printf "%s/%s" $image.registry $image.repository -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default (printf "v%s" .Chart.AppVersion) $image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The host in endpoints; empty when it is the node's address, which is the pod's. */}}
{{- define "nephele.advertiseHost" -}}
{{- $workload := .Values.workload -}}
{{- if $workload.advertiseHost -}}
{{- $workload.advertiseHost -}}
{{- else if not .Values.hostNetwork -}}
{{- printf "%s-workload.%s.svc" (include "nephele.fullname" .) .Release.Namespace -}}
{{- end -}}
{{- end -}}

{{/* The ConfigMap of cluster templates. */}}
{{- define "nephele.templatesName" -}}
{{- printf "%s-templates" (include "nephele.fullname" .) -}}
{{- end -}}

{{/* The key of the template that needs nothing else, which clusterctl also reads when no key is given. */}}
{{- define "nephele.defaultTemplate" -}}
template
{{- end -}}

{{/* The other keys, as a list in a sentence. */}}
{{- define "nephele.otherTemplates" -}}
{{- $keys := list -}}
{{- range $path, $_ := .Files.Glob "files/templates/*.yaml" -}}
{{- $keys = append $keys (base $path | trimSuffix ".yaml") -}}
{{- end -}}
{{- without $keys (include "nephele.defaultTemplate" .) | sortAlpha | join ", " -}}
{{- end -}}

{{/* Flags of the manager, each with its value in one argument, the form that other tools can change. */}}
{{- define "nephele.args" -}}
{{- if .Values.roles -}}
- --roles={{ join "," .Values.roles }}
{{ end -}}
- --leader-elect={{ .Values.leaderElection.enabled }}
{{- if .Values.metrics.enabled }}
- --diagnostics-address=:{{ .Values.metrics.port | int }}
- --insecure-diagnostics={{ not .Values.metrics.authentication }}
{{- else }}
- --diagnostics-address=0
{{- end }}
{{- if ne (.Values.health.port | int) 9440 }}
- --health-addr=:{{ .Values.health.port | int }}
{{- end }}
- --logging-format={{ .Values.logging.format }}
- --v={{ .Values.logging.level | int }}
{{- if include "nephele.is" (dict "root" . "role" "infrastructure") }}
- --page-address={{ ternary (printf ":%d" (.Values.page.port | int)) "0" .Values.page.enabled }}
- {{ printf "--seed=%s" .Values.seed | quote }}
- --workload-ports={{ .Values.workload.ports.first | int }}-{{ .Values.workload.ports.last | int }}
{{- with include "nephele.advertiseHost" . }}
- {{ printf "--advertise-host=%s" . | quote }}
{{- end }}
{{- if .Values.state.enabled }}
- --state-dir={{ include "nephele.stateFolder" . }}
{{- end }}
{{- if not .Values.prepareCredentials }}
- --prepare-credentials=false
{{- end }}
{{- end }}
{{- if include "nephele.is" (dict "root" . "role" "ipam") }}
{{- if .Values.ipam.reclaimOrphans }}
- --ipam-reclaim-orphans=true
{{- end }}
{{- if ne .Values.ipam.overlap "off" }}
- --ipam-overlap={{ .Values.ipam.overlap }}
{{- end }}
{{- end }}
{{- if include "nephele.servesWebhooks" . }}
- --webhook-port={{ .Values.webhooks.port | int }}
{{- if .Values.webhooks.certificate.secret }}
- --webhook-cert-dir={{ include "nephele.certificateFolder" . }}
{{- end }}
{{- else if not .Values.webhooks.enabled }}
- --webhook-port=0
{{- end }}
{{- with .Values.watch.namespace }}
- --namespace={{ . }}
{{- end }}
{{- with .Values.watch.filter }}
- {{ printf "--watch-filter=%s" . | quote }}
{{- end }}
{{- range .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end -}}

{{/* Where the volume of the state is mounted. */}}
{{- define "nephele.stateFolder" -}}
/var/lib/nephele
{{- end -}}

{{/* Where a given certificate is mounted. */}}
{{- define "nephele.certificateFolder" -}}
/tmp/k8s-webhook-server/serving-certs
{{- end -}}

{{/* Whether the manager serves the page, which shows its cloud. Empty for no. */}}
{{- define "nephele.servesPage" -}}
{{- if .Values.page.enabled -}}{{- include "nephele.is" (dict "root" . "role" "infrastructure") -}}{{- end -}}
{{- end -}}

{{/* Whether the manager serves webhooks: one of its roles has a Service for them. Empty for no. */}}
{{- define "nephele.servesWebhooks" -}}
{{- $serves := "" -}}
{{- if .Values.webhooks.enabled -}}
{{- range $path, $_ := .Files.Glob "files/webhooks/*.service.*.yaml" -}}
{{- $provider := base $path | splitList "." | first -}}
{{- if include "nephele.is" (dict "root" $ "role" $provider) -}}
{{- $serves = "yes" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $serves -}}
{{- end -}}

{{/* Whether it serves them with a given certificate. Empty for no. */}}
{{- define "nephele.givenCertificate" -}}
{{- if include "nephele.servesWebhooks" . -}}{{- .Values.webhooks.certificate.secret -}}{{- end -}}
{{- end -}}

{{/* The pod's environment for the process. */}}
{{- define "nephele.env" -}}
{{- if include "nephele.is" (dict "root" . "role" "infrastructure") -}}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
{{ end -}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_UID
  valueFrom: {fieldRef: {fieldPath: metadata.uid}}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/*
Refuses to take over objects that clusterctl has installed: each would change the other's objects. Without a cluster, as with
`helm template`, `lookup` finds nothing.
*/}}
{{- define "nephele.checkClusterctl" -}}
{{- $inventory := "clusterctl.cluster.x-k8s.io/v1alpha3" -}}
{{- if and .Values.crds.install (.Capabilities.APIVersions.Has $inventory) -}}
{{- $ours := list -}}
{{- if include "nephele.is" (dict "root" . "role" "infrastructure") -}}{{- $ours = append $ours "infrastructure-in-memory" -}}{{- end -}}
{{- if include "nephele.is" (dict "root" . "role" "ipam") -}}{{- $ours = append $ours "ipam-in-cluster" -}}{{- end -}}
{{- range $provider := (lookup $inventory "Provider" "" "").items -}}
{{- if has $provider.metadata.name $ours -}}
{{- fail (printf "clusterctl has installed %s in the namespace %s: remove it with clusterctl first, leave its role out of roles, or install a second manager with crds.install=false and webhooks.enabled=false" $provider.metadata.name $provider.metadata.namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses ports, each with `name` and `port`, of which two have the same number: one process cannot serve both. */}}
{{- define "nephele.checkDistinct" -}}
{{- $taken := dict -}}
{{- range $one := . -}}
{{- $number := $one.port | toString -}}
{{- with get $taken $number -}}
{{- fail (printf "%s (%s) is also %s: each needs a port of its own" $one.name $number .) -}}
{{- end -}}
{{- $_ := set $taken $number $one.name -}}
{{- end -}}
{{- end -}}

{{/* The ports that each process serves are distinct, and no port of the manager is one of workload clusters. */}}
{{- define "nephele.checkPorts" -}}
{{- $health := dict "name" "health.port" "port" (.Values.health.port | int) -}}
{{- $both := list $health -}}
{{- if .Values.metrics.enabled -}}
{{- $both = append $both (dict "name" "metrics.port" "port" (.Values.metrics.port | int)) -}}
{{- end -}}
{{- $manager := $both -}}
{{- if include "nephele.servesWebhooks" . -}}
{{- $manager = append $manager (dict "name" "webhooks.port" "port" (.Values.webhooks.port | int)) -}}
{{- end -}}
{{- if include "nephele.servesPage" . -}}
{{- $manager = append $manager (dict "name" "page.port" "port" (.Values.page.port | int)) -}}
{{- end -}}
{{- include "nephele.checkDistinct" $manager -}}
{{- if .Values.runtimeExtension.enabled -}}
{{- $hooks := dict "name" "the port of the runtime extension" "port" (include "nephele.extensionPort" . | int) -}}
{{- include "nephele.checkDistinct" (prepend $both $hooks) -}}
{{- end -}}
{{- if include "nephele.is" (dict "root" . "role" "infrastructure") -}}
{{- $first := .Values.workload.ports.first | int -}}
{{- $last := .Values.workload.ports.last | int -}}
{{- range $manager -}}
{{- if and (ge .port $first) (le .port $last) -}}
{{- fail (printf "workload.ports (%d-%d) has %s (%d): a workload cluster cannot have a port of the manager" $first $last .name .port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A budget that lets at least one pod be evicted, as Kubernetes counts: a share of the pods is rounded up. */}}
{{- define "nephele.checkBudget" -}}
{{- $budget := .Values.podDisruptionBudget -}}
{{- $replicas := .Values.replicas | int -}}
{{- if and $budget.enabled (gt $replicas 0) -}}
{{- $least := $budget.minAvailable -}}
{{- $most := $budget.maxUnavailable -}}
{{- if not (or (kindIs "invalid" $least) (kindIs "invalid" $most)) -}}
{{- fail "podDisruptionBudget takes minAvailable or maxUnavailable, not both" -}}
{{- end -}}
{{- if not (kindIs "invalid" $least) -}}
{{- $pods := $least | int -}}
{{- if kindIs "string" $least -}}
{{- $pods = div (add (mul (trimSuffix "%" $least | int) $replicas) 99) 100 | int -}}
{{- end -}}
{{- if ge $pods $replicas -}}
{{- fail (printf "podDisruptionBudget.minAvailable (%v) keeps every pod with replicas of %d: no node with one could be drained" $least $replicas) -}}
{{- end -}}
{{- end -}}
{{- if and (not (kindIs "invalid" $most)) (has (toString $most) (list "0" "0%")) -}}
{{- fail (printf "podDisruptionBudget.maxUnavailable (%v) keeps every pod: no node with one could be drained" $most) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What is turned on is served or used by the manager. */}}
{{- define "nephele.checkServed" -}}
{{- $metrics := .Values.metrics -}}
{{- if not $metrics.enabled -}}
{{- range list "service" "serviceMonitor" "prometheusRule" "dashboard" -}}
{{- if (get $metrics .).enabled -}}
{{- fail (printf "metrics.%s needs metrics.enabled: without it the manager serves no metrics" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not (include "nephele.is" (dict "root" . "role" "infrastructure")) -}}
{{- range list "page" "state" -}}
{{- if (get $.Values .).enabled -}}
{{- fail (printf "%s.enabled needs the role infrastructure: a manager without it has no workload clusters" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.webhooks.enabled .Values.webhooks.certificate.injectFrom (not .Values.webhooks.certificate.secret) -}}
{{- fail "webhooks.certificate.injectFrom needs webhooks.certificate.secret: that authority has not signed the certificate that the manager makes" -}}
{{- end -}}
{{- end -}}

{{/* Values that are valid one by one, but not together. */}}
{{- define "nephele.check" -}}
{{- include "nephele.checkClusterctl" . -}}
{{- $workload := .Values.workload -}}
{{- $type := $workload.service.type -}}
{{- $first := $workload.ports.first | int -}}
{{- $last := $workload.ports.last | int -}}
{{- if lt $last $first -}}
{{- fail (printf "workload.ports.last (%d) is below workload.ports.first (%d)" $last $first) -}}
{{- end -}}
{{- include "nephele.checkPorts" . -}}
{{- include "nephele.checkBudget" . -}}
{{- include "nephele.checkServed" . -}}
{{- if and (gt (.Values.replicas | int) 1) (not .Values.leaderElection.enabled) -}}
{{- fail "replicas above 1 need leaderElection.enabled: two managers would publish two addresses for each cluster" -}}
{{- end -}}
{{- if and .Values.rbac.namespaced (not .Values.watch.namespace) -}}
{{- fail "rbac.namespaced needs watch.namespace: a manager of all namespaces needs permissions in all" -}}
{{- end -}}
{{- if and .Values.runtimeExtension.enabled (eq (include "nephele.extensionAccount" .) (include "nephele.serviceAccountName" .)) -}}
{{- fail "runtimeExtension.serviceAccount has to be another account than serviceAccount: a client of the extension acts with its rights" -}}
{{- end -}}
{{- if and .Values.metrics.prometheusRule.enabled (not .Values.metrics.serviceMonitor.enabled) -}}
{{- fail "metrics.prometheusRule needs metrics.serviceMonitor.enabled: its alerts are about what that lets Prometheus read" -}}
{{- end -}}
{{- $instead := dict -}}
{{- $_ := set $instead "ClusterIP" "use Headless, a name that outlives the manager's pod, too, and has no limit of ports" -}}
{{- $_ := set $instead "NodePort" "use hostNetwork=true, which makes workload API servers ports of the node" -}}
{{- $_ := set $instead "None" "use Headless, or hostNetwork=true for the address of the node" -}}
{{- with get $instead $type -}}
{{- fail (printf "workload.service.type %s was removed: %s" $type .) -}}
{{- end -}}
{{- if eq $type "LoadBalancer" -}}
{{- if ge (sub $last $first) 500 -}}
{{- fail "workload.service.type LoadBalancer lists every port: workload.ports may be 500 ports at most" -}}
{{- end -}}
{{- if gt (.Values.replicas | int) 1 -}}
{{- fail "workload.service.type LoadBalancer needs replicas of 1: it would lead half of the connections to a manager without the lease" -}}
{{- end -}}
{{- if not $workload.advertiseHost -}}
{{- fail "workload.service.type LoadBalancer needs workload.advertiseHost: the address of the load balancer" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.hostNetwork (gt (.Values.replicas | int) 1) (not $workload.advertiseHost) -}}
{{- fail "hostNetwork needs replicas of 1, or workload.advertiseHost: endpoints would be the address of a node that the manager may leave" -}}
{{- end -}}
{{- if and .Values.state.enabled (eq .Values.state.type "emptyDir") (gt (.Values.replicas | int) 1) -}}
{{- fail "state.type emptyDir needs replicas of 1: each pod would have a state of its own, and bring back an old one" -}}
{{- end -}}
{{- if and .Values.state.enabled (eq .Values.state.type "persistentVolumeClaim") (gt (.Values.replicas | int) 1) (not (has "ReadWriteMany" .Values.state.persistentVolumeClaim.accessModes)) -}}
{{- fail "state.persistentVolumeClaim with replicas above 1 needs the access mode ReadWriteMany" -}}
{{- end -}}
{{- end -}}
