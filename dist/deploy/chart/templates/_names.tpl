{{- define "toolcell.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "toolcell.selector" -}}
app.kubernetes.io/name: toolcell
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "toolcell.labels" -}}
{{ include "toolcell.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "toolcell.workers" -}}
app.kubernetes.io/name: toolcell-worker
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "toolcell.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "toolcell.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
# Secrets are root's, with this group, and can be read by nobody else.
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "toolcell.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "toolcell.config" -}}
{{ .Values.config }}
{{- with .Values.cluster }}
{{- if .enabled }}
[cluster]
servers = {{ toJson .servers }}
nkey = "/run/secrets/cluster/seed"
key = "/run/secrets/cluster/seed"
gateways = {{ toJson (list .gateway) }}
replicas = {{ .replicas }}
{{- if .ca }}
ca = "/run/secrets/cluster/ca.crt"
{{- end }}
{{ end }}
{{- end }}
{{- end -}}

{{/* The seed of `gateway` or `worker`, and the authority of the servers. */}}
{{- define "toolcell.seed" -}}
- name: cluster
  secret:
    secretName: {{ .cluster.secret }}
    defaultMode: 0440
    items:
      - key: {{ .part }}
        path: seed
      {{- if .cluster.ca }}
      - key: ca.crt
        path: ca.crt
      {{- end }}
{{- end -}}
