{{/* Labels of every object, and what selects the operator's pods. */}}
{{- define "plimsoll.labels" -}}
app.kubernetes.io/name: plimsoll
{{- end }}

{{/* What the operator's file says: the values, and where it runs. */}}
{{- define "plimsoll.config" -}}
{{- $config := deepCopy .Values.config -}}
{{- $operator := merge (dict "namespace" .Release.Namespace) (default dict $config.operator) -}}
{{- set $config "operator" $operator | toJson -}}
{{- end }}

{{/* Which controllers run, as JSON. */}}
{{- define "plimsoll.controllers" -}}
{{- $rbac := .Files.Get "files/rbac.yaml" | fromYaml -}}
{{- $config := include "plimsoll.config" . | fromJson -}}
{{- $enabled := default list (default dict $config.controllers).enabled -}}
{{- range $enabled -}}
{{- if not (hasKey $rbac.controllers .) -}}
{{- fail (printf "config.controllers.enabled: there is no controller %q; there are: %s" . (keys $rbac.controllers | sortAlpha | join ", ")) -}}
{{- end -}}
{{- end -}}
{{- dict "names" (empty $enabled | ternary $rbac.default $enabled) | toJson -}}
{{- end }}

{{/* Whether replicas are placed, and not only looked at: "true" or nothing. */}}
{{- define "plimsoll.places" -}}
{{- $names := (include "plimsoll.controllers" . | fromJson).names -}}
{{- if and (has "placement" $names) (not (include "plimsoll.config" . | fromJson).operator.readOnlyMode) -}}
true
{{- end -}}
{{- end }}

{{/* Whether the API server asks about new pods through a Service: "true" or nothing. */}}
{{- define "plimsoll.webhook" -}}
{{- $mode := default "" (default dict (include "plimsoll.config" . | fromJson).webhook).mode -}}
{{- if eq $mode "url" -}}
{{- fail "config.webhook.mode: url is for an operator outside of the cluster; expected service or off" -}}
{{- end -}}
{{- if and (include "plimsoll.places" .) (eq $mode "service") -}}
true
{{- end -}}
{{- end }}

{{/* Whether the dashboard asks for a token: "true" or nothing. */}}
{{- define "plimsoll.dashboard.asks" -}}
{{- $dashboard := default dict (include "plimsoll.config" . | fromJson).dashboard -}}
{{- if and (ne (toString $dashboard.enabled) "false") (eq (default "loopback" $dashboard.access) "token") -}}
true
{{- end -}}
{{- end }}

{{/* Whether others than the pod itself reach the dashboard: "true" or nothing. */}}
{{- define "plimsoll.dashboard.open" -}}
{{- $dashboard := default dict (include "plimsoll.config" . | fromJson).dashboard -}}
{{- $host := default "127.0.0.1" $dashboard.host -}}
{{- if and (ne (toString $dashboard.enabled) "false") (not (hasPrefix "127." $host)) (not (has $host (list "localhost" "::1"))) -}}
{{- if not (include "plimsoll.dashboard.asks" .) -}}
{{- fail (printf "config.dashboard.access: loopback, but config.dashboard.host is %s, where others can reach it; set config.dashboard.access: token" $host) -}}
{{- end -}}
true
{{- end -}}
{{- end }}

{{- define "plimsoll.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The name of what lies outside the operator's own namespace, where another installation may have the like of it. */}}
{{- define "plimsoll.outside" -}}
plimsoll.{{ .Release.Namespace }}
{{- end }}

{{- define "plimsoll.priorityClass" -}}
{{- .Values.priorityClass.name | default (include "plimsoll.outside" .) -}}
{{- end }}

{{/* A role and who has it. Takes kind, name, namespace (or nothing), rules and home. */}}
{{- define "plimsoll.grant" -}}
{{- $name := eq .home (default "" .namespace) | ternary .name (printf "%s.%s" .name .home) -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ $name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "plimsoll.labels" . | nindent 4 }}
rules:
  {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ $name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "plimsoll.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: plimsoll
    namespace: {{ .home }}
{{- end }}
